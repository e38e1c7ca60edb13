"""Search for inputs that a trained model gets wrong, by the margin of the right answer: `headway attack`."""
