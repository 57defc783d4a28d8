"""Built-in data: seven simulated hourly series of a small town's utilities over 400 days.

    load        electricity, megawatt: a day's course with two peaks, higher on working days than at the weekend and
                on holidays; the year, a slow trend, a new housing estate (a step), and weather that lasts for days
    feeder      one cable of that grid: follows the load two hours late, and saturates near its limit
    price       of the electricity: flat while load is low, steep when it is high
    tower       metres of water in the water tower: the town draws it down, and a pump that starts when it is nearly
                empty and stops when it is full brings it up again
    basin       metres in the rain basin of the sewage works: the same the other way round, and slower; rain adds to it
    cold_store  degrees in a cold store: warms up, faster by day, until the compressor starts, which cools it down
    factory     a factory's power: every eight hours, the stock level sets how many of three lines run in the next shift

Daily and weekly seasons drift, so yesterday and last week are good forecasts but not the best. The last four react to
thresholds, as pumps, thermostats and stocks do: the next value depends on the current state and is not a weighted sum
of past values, so a linear forecast cannot learn it.
"""

import math
import random
from datetime import datetime, timedelta

import numpy as np

from glassformer.data.columns.calendar import Frequency
from glassformer.data.series import Series

DAYS = 400
START = datetime(2023, 1, 2)  # a Monday
SERIES_NAMES = ("load", "feeder", "price", "tower", "basin", "cold_store", "factory")
HOLIDAYS = {0, 1, 95, 98, 119, 148, 159, 275, 357, 358, 363, 364, 365}  # counted in days from the start


def seasons(seed: int = 0) -> Series:
    """All seven series for every hour of the 400 days: values (9600, 7)."""
    rng = random.Random(f"seasons {seed}")
    town = Town(rng)
    rows = [town.step(hour) for hour in range(24 * DAYS)]
    times = np.array([START + timedelta(hours=hour) for hour in range(len(rows))], dtype="datetime64[s]")
    return Series(SERIES_NAMES, times, np.array(rows, dtype=np.float32), Frequency(3600, "second"))


class Town:
    """The state of the town from one hour to the next."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.weather = 0.0  # colder or warmer than the season, for days
        self.mood = 0.0  # strength of the daily pattern; drifts
        self.delay = 0.0  # delay of the daily pattern in hours; drifts
        self.past_load = [50.0, 50.0]
        self.tower, self.pumping = 5.0, False
        self.basin, self.draining = 2.0, False
        self.cold_store, self.cooling = -20.0, False
        self.stock, self.shift = 8.0, 0

    def step(self, hour: int) -> list[float]:
        """Advances by one hour and returns the readings."""
        self.weather = 0.99 * self.weather + self.rng.gauss(0.0, 0.10)
        self.mood = 0.995 * self.mood + self.rng.gauss(0.0, 0.02)
        self.delay = 0.995 * self.delay + self.rng.gauss(0.0, 0.05)
        load = self.load(hour)
        feeder = 30.0 * math.tanh((self.past_load[0] - 20.0) / 30.0) + self.rng.gauss(0.0, 0.4)
        self.past_load = [*self.past_load[1:], load]
        price = 40.0 + 0.4 * load + 40.0 / (1.0 + math.exp(-(load - 68.0) / 4.0)) + self.rng.gauss(0.0, 1.5)
        readings = [load, feeder, price, self.water(hour), self.rain(hour), self.frost(hour), self.factory(hour)]
        return [round(reading, 3) for reading in readings]

    def load(self, hour: int) -> float:
        day, clock = hour // 24, hour % 24 - self.delay
        works = day % 7 < 5 and day not in HOLIDAYS
        level = 50.0 + 0.01 * day + (3.0 if day >= 210 else 0.0) + 5.0 * math.cos(2 * math.pi * day / 365)
        morning = (14.0 if works else 5.0) * bump(clock, 8.5, 2.5)
        evening = (16.0 if works else 13.0) * bump(clock, 19.0, 2.5)
        night = -12.0 * bump(clock, 3.0, 3.0)
        course = (morning + evening + night) * math.exp(0.5 * self.mood)
        return level + (0.0 if works else -6.0) + course + 3.0 * self.weather + self.rng.gauss(0.0, 0.8)

    def water(self, hour: int) -> float:
        clock = hour % 24
        use = 0.25 + 0.35 * bump(clock, 8.0, 2.0) + 0.30 * bump(clock, 19.0, 2.5)
        self.pumping = self.tower < 2.0 or (self.pumping and self.tower < 8.0)
        self.tower += (1.3 if self.pumping else 0.0) - use + self.rng.gauss(0.0, 0.02)
        return self.tower + self.rng.gauss(0.0, 0.05)

    def rain(self, hour: int) -> float:
        inflow = 0.06 + 0.03 * bump(hour % 24, 12.0, 4.0) + 0.02 * max(0.0, self.weather)
        self.draining = self.basin > 4.0 or (self.draining and self.basin > 1.0)
        self.basin += inflow - (0.45 if self.draining else 0.0) + self.rng.gauss(0.0, 0.005)
        return self.basin + self.rng.gauss(0.0, 0.03)

    def frost(self, hour: int) -> float:
        warming = 0.25 + 0.25 * bump(hour % 24, 14.0, 4.0)
        self.cooling = self.cold_store > -18.0 or (self.cooling and self.cold_store > -22.0)
        self.cold_store += warming - (1.2 if self.cooling else 0.0) + self.rng.gauss(0.0, 0.03)
        return self.cold_store + self.rng.gauss(0.0, 0.05)

    def factory(self, hour: int) -> float:
        """Every eight hours, the stock level sets how many of the three lines run."""
        if hour % 8 == 6:
            self.shift = 3 if self.stock < 4.0 else 0 if self.stock > 12.0 else max(1, self.shift - 1)
        self.stock += 0.25 * self.shift - 0.45 - 0.2 * bump(hour % 24, 11.0, 4.0)
        return 2.0 + 3.0 * self.shift + self.rng.gauss(0.0, 0.3)


def bump(clock: float, centre: float, width: float) -> float:
    """1 at the centre, 0 far from it, on a circular clock."""
    apart = (clock - centre + 12.0) % 24.0 - 12.0
    return math.exp(-0.5 * (apart / width) ** 2)
