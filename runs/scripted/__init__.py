"""The scripted endpoint: plays fixed answers over the chat-completions protocol. It is not a model."""
