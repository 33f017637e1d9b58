//! From values to pixels, and where an axis has its marks.
//!
//! Thread safety: pure functions. What is not a number, or not above 0 on a logarithmic axis, is
//! drawn at the axis' low end.

/// Steps of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences; the y axis begins at 0.
    #[default]
    Linear,
    /// Equal steps are equal ratios.
    Log,
}

/// Marks of an axis, about.
const TICKS: f64 = 5.0;

/// One axis.
pub(super) struct Mapping {
    scale: Scale,
    /// Values at both ends.
    ends: (f64, f64),
    /// Pixels at both ends.
    pixels: (f64, f64),
}

impl Mapping {
    /// From these values to these pixels.
    pub fn fixed(ends: (f64, f64), pixels: (f64, f64)) -> Mapping {
        Mapping { scale: Scale::Linear, ends, pixels }
    }

    /// From the least of the values to the most.
    pub fn tight(scale: Scale, values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Mapping {
        let mut ends = range(scale, values);
        if ends.0 == ends.1 {
            ends = match scale {
                Scale::Log => (ends.0 / 2.0, ends.1 * 2.0),
                Scale::Linear => (ends.0 - 1.0, ends.1 + 1.0),
            };
        }
        Mapping { scale, ends, pixels }
    }

    /// From 0, or a round number below the values, to a round number above them.
    pub fn round(scale: Scale, values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Mapping {
        let (least, most) = range(scale, values);
        let ends = match scale {
            Scale::Linear => {
                let most = if most > 0.0 { most } else { 1.0 };
                let step = step(most / TICKS);
                (0.0, (most / step - 1e-9).ceil() * step)
            }
            Scale::Log => {
                let ends = (below(least), above(most));
                if ends.0 == ends.1 { (ends.0 / 2.0, ends.1 * 2.0) } else { ends }
            }
        };
        Mapping { scale, ends, pixels }
    }

    /// The pixel of a value.
    pub fn at(&self, value: f64) -> f64 {
        let of = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.ends.0).ln(),
        };
        let (low, high) = (of(self.ends.0), of(self.ends.1));
        let share = (of(value) - low) / (high - low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Where the axis has its marks.
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.ends;
        match self.scale {
            Scale::Linear => {
                let step = step((high - low) / TICKS);
                let first = (low / step - 1e-9).ceil();
                let count = ((high - low) / step + 1e-6).floor() as usize;
                (0..=count)
                    .map(|n| (first + n as f64) * step)
                    .filter(|t| *t <= high + step * 1e-6)
                    .collect()
            }
            Scale::Log => {
                let decades = (high / low).log10();
                let marks: &[f64] = match decades {
                    d if d <= 1.5 => &[1.0, 2.0, 3.0, 5.0],
                    d if d <= 3.0 => &[1.0, 3.0],
                    _ => &[1.0],
                };
                let first = low.log10().floor() as i32;
                let last = high.log10().ceil() as i32;
                let all =
                    (first..=last).flat_map(|p| marks.iter().map(move |m| m * 10_f64.powi(p)));
                all.filter(|t| *t >= low * 0.999 && *t <= high * 1.001).collect()
            }
        }
    }
}

/// The least and the most of the values that the scale can show.
fn range(scale: Scale, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let shown =
        values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
    let (low, high) = shown.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    if low > high { (1.0, 1.0) } else { (low, high) }
}

/// The round number (1, 2 or 5 times a power of ten) next above.
fn step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.log10().floor());
    let rounds = [1.0, 2.0, 5.0, 10.0];
    let of = rounds.iter().find(|round| raw <= *round * power * (1.0 + 1e-9)).unwrap_or(&10.0);
    of * power
}

fn above(value: f64) -> f64 {
    step(value)
}

fn below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let rounds = [5.0, 2.0, 1.0];
    rounds.iter().find(|round| value >= *round * power * (1.0 - 1e-9)).unwrap_or(&1.0) * power
}

/// A number in few letters: `12`, `0.25`, `3.4k`, `1.2M`.
pub fn short(value: f64) -> String {
    let (divisor, unit) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let value = value / divisor;
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    format!("{text}{unit}")
}
