"""Documents that people write or confirm: loaded strictly, validated whole, hashed, resolved. All pure."""
