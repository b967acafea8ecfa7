"""What runs inside the isolated Harbor environment. Nothing on Django's side imports it."""
