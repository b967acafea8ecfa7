"""What every part of the product may use; imports none of them."""
