"""What an attacker is made of: its options as a user gives them, and ways out and back."""
