"""What commands share: arguments and options, models and data, tables and JSON, long runs."""
