//! The digits that an answer's numbers are written with.

/// The width of an interval has this many significant digits at least.
const WIDTH_DIGITS: i32 = 2;
/// Numbers below the first, and from the second on, may be in scientific form.
const ORDINARY: std::ops::Range<f64> = 1e-3..1e15;
/// A width below this share of the numbers is the noise of rounded arithmetic.
const NOISE: f64 = 1e-12;
/// More digits than 64 bits hold.
const DIGITS_MAX: i32 = 17;

/// The digits that the numbers of an answer are written with.
///
/// ```
/// use approx_answers::Digits;
///
/// let text = |numbers: [f64; 3]| numbers.map(|number| Digits::new(numbers, 2).text(number));
/// assert_eq!(text([12.8799, 12.2848, 13.475]), ["12.88", "12.28", "13.47"]);
/// assert_eq!(text([0.01234, 0.01222, 0.01246]), ["0.01234", "0.01222", "0.01246"]);
/// assert_eq!(text([3.1e-5, 2.9e-5, 3.3e-5]), ["3.10e-5", "2.90e-5", "3.30e-5"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    /// Decimal places of the unit, also in scientific form; negative for tens and more.
    places: i32,
    is_scientific: bool,
}

impl Digits {
    /// Digits for an answer and the two ends of its interval. There are `places` decimals, and more
    /// if the interval's width needs them for two significant digits. Without a width, the answer
    /// has `1 + places` significant digits. Very small and very large numbers have the scientific
    /// form if that is shorter.
    pub fn new([value, low, high]: [f64; 3], places: u8) -> Self {
        let least = i32::from(places);
        let numbers = || [value, low, high].into_iter().filter(|number| number.is_finite());
        let largest = numbers().map(f64::abs).fold(0.0, f64::max);
        let width = high - low;
        let needed = if width.is_finite() && width > NOISE * largest {
            // The answer has them too.
            (WIDTH_DIGITS - 1 - exponent(width)).max(WIDTH_DIGITS - 1 - exponent(largest))
        } else {
            let all = digits(value) - 1 - exponent(value);
            all.min(least.max(least - exponent(value)))
        };
        let needed = needed.min(DIGITS_MAX - 1 - exponent(largest));
        let fixed = Self { places: needed.max(least), is_scientific: false };
        let scientific = Self { places: needed, is_scientific: true };
        let chars = |of: Self| numbers().map(|number| of.text(number).len()).sum::<usize>();
        let is_ordinary = largest == 0.0 || ORDINARY.contains(&largest);
        if !is_ordinary && chars(scientific) < chars(fixed) { scientific } else { fixed }
    }

    /// A number with these digits.
    pub fn text(self, number: f64) -> String {
        match self.is_scientific {
            true if number == 0.0 => "0".to_owned(),
            true if number.is_finite() => {
                let places = (self.places + exponent(number)).clamp(0, DIGITS_MAX) as usize;
                format!("{number:.places$e}")
            }
            _ => format!("{number:.places$}", places = self.places.max(0) as usize),
        }
    }
}

/// The exponent of a number in scientific form. A logarithm may be wrong by one.
fn exponent(number: f64) -> i32 {
    let text = format!("{number:e}");
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// The digits that tell a number from all others.
fn digits(number: f64) -> i32 {
    let text = format!("{number:e}");
    let mantissa = text.split('e').next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(numbers: [f64; 3], places: u8) -> String {
        numbers.map(|number| Digits::new(numbers, places).text(number)).join(" ")
    }

    #[test]
    fn text__of_ordinary_numbers_has_fixed_places() {
        for (numbers, places, expected) in [
            ([12.8799, 12.2848, 13.475], 4, "12.8799 12.2848 13.4750"),
            ([7.1649, 5.872, 8.4584], 2, "7.16 5.87 8.46"),
            ([123_456.7, 123_400.0, 123_513.4], 4, "123456.7000 123400.0000 123513.4000"),
            ([1e6, 9e5, 1.1e6], 2, "1000000.00 900000.00 1100000.00"),
            ([-3.0, -3.5, -2.5], 4, "-3.0000 -3.5000 -2.5000"),
            // Of no width.
            ([7.5; 3], 2, "7.50 7.50 7.50"),
            ([22.0 / 3.0; 3], 4, "7.3333 7.3333 7.3333"),
            ([0.5; 3], 4, "0.5000 0.5000 0.5000"),
            ([0.0; 3], 4, "0.0000 0.0000 0.0000"),
            ([5e12; 3], 4, "5000000000000.0000 5000000000000.0000 5000000000000.0000"),
            // One message shows no width.
            ([12.5, f64::NEG_INFINITY, f64::INFINITY], 4, "12.5000 -inf inf"),
        ] {
            assert_eq!(texts(numbers, places), expected);
        }
    }

    #[test]
    fn text__shows_the_width_of_narrow_intervals() {
        for (numbers, places, expected) in [
            ([12.34567, 12.34512, 12.34622], 2, "12.3457 12.3451 12.3462"),
            ([0.01234, 0.01222, 0.01246], 4, "0.01234 0.01222 0.01246"),
            ([1e6, 1e6 - 1e-5, 1e6 + 1e-5], 4, "1000000.000000 999999.999990 1000000.000010"),
            // The width is the noise of rounding.
            ([0.3, 0.3, 0.1 + 0.2], 2, "0.30 0.30 0.30"),
        ] {
            assert_eq!(texts(numbers, places), expected);
        }
    }

    #[test]
    fn text__of_small_and_large_numbers_is_scientific() {
        for (numbers, places, expected) in [
            ([3.1e-5, 2.9e-5, 3.3e-5], 4, "3.10e-5 2.90e-5 3.30e-5"),
            ([1e-5, -4e-5, 6e-5], 2, "1.0e-5 -4.0e-5 6.0e-5"),
            ([1e-6, 0.0, 2e-6], 2, "1.0e-6 0 2.0e-6"),
            ([1.23e16, 1.13e16, 1.33e16], 4, "1.23e16 1.13e16 1.33e16"),
            ([3.125e-5; 3], 4, "3.125e-5 3.125e-5 3.125e-5"),
            ([1e-4 / 3.0; 3], 4, "3.3333e-5 3.3333e-5 3.3333e-5"),
            ([2e18; 3], 4, "2e18 2e18 2e18"),
            ([3.1e-5, f64::NEG_INFINITY, f64::INFINITY], 4, "3.1e-5 -inf inf"),
            ([0.0005; 3], 4, "5e-4 5e-4 5e-4"),
            ([f64::MIN_POSITIVE; 3], 2, "2.23e-308 2.23e-308 2.23e-308"),
        ] {
            assert_eq!(texts(numbers, places), expected);
        }
    }
}
