"""What a daemon's own memory grows by."""
import threading


class Watch:
    """Samples the daemon's memory until it is asked for the most."""

    def __init__(self, daemon):
        self.daemon, self.begin = daemon, daemon.memory()
        self.most = self.begin
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def run(self):
        while not self.is_over.wait(0.02):
            self.most = max(self.most, self.daemon.memory())

    @property
    def growth(self):
        self.most = max(self.most, self.daemon.memory() if self.daemon.is_alive() else 0)
        return self.most - self.begin
