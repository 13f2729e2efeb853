"""What a person types; thin: parse, call, show."""
