"""What the sensor writes: readings and samples in, sightings and incidents out, old samples away."""
