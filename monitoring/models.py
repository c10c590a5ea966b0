"""What the sensor keeps."""
