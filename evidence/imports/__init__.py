"""Reads a job folder that some Harbor wrote into one closed description; pure, and believes nothing of it a proof."""
