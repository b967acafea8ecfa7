"""Admin of the HTTP API's tokens: who has which, and revoking them."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from benchsite.lib import words
from runs.admin.read_only import ReadOnly
from runs.models import ApiToken
from runs.services import access, tokens


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnly):
    list_display = ("name", "key", "user", "scopes", "state", "created_at", "expires_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("name", "key", "user__username")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.display(description="scopes")
    def scopes(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)

    @admin.display(description="state")
    def state(self, token: ApiToken) -> str:
        return tokens.state_word(token)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.REVOKE_TOKEN)

    @admin.action(description="Revoke the selected tokens", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        done = sum(tokens.revoke(by=request.user, token=token) for token in queryset.select_related("user"))
        self.message_user(request, f"Revoked {words.counted(done, 'token')}.", messages.SUCCESS)
