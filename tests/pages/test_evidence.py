NAMES = {"trajectory"}
