"""How fast is it? Each benchmark measures side by side and prints one JSON line at its end; no test asserts a time."""
