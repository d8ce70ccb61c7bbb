"""What programs ask before they choose a device: there is no CUDA here."""


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no device to seed. tensord.manual_seed() seeds the one there is."""
