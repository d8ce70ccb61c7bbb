"""What programs ask before they choose a device: there is no accelerator here."""


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None: there is none."""
    return None
