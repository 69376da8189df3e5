"""What the gates choose: figures 3, 4 and 7 of the paper, and one pair under the microscope."""
