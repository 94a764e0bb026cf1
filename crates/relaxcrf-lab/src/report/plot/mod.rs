//! Line plots as SVG: for pages (inline) and for files of their own.
//!
//! Text and lines take the colour of their surroundings, so that a plot reads in the light and in the dark.
//! Series differ in colour and in the shape of their marks. A plot is drawn for a given width: scaling one
//! drawing down to a phone would make its text unreadable.

mod axis;
mod draw;

pub use self::axis::Axis;

/// Width of a plot on a large screen, and on a phone.
pub const WIDE: f64 = 680.0;
/// Width of a plot on a phone.
pub const NARROW: f64 = 350.0;

/// Colours of the series, in turn: all readable on white and on black.
pub const COLOURS: [&str; 10] = [
    "#3b7dd8", "#e07b1a", "#2f9e44", "#d6336c", "#8f5bd9", "#0c97a3", "#a88400", "#8a6d5c", "#6b7785",
    "#e0503a",
];

/// A plot: curves over two axes.
#[derive(Debug, Clone, Default)]
pub struct Plot {
    /// Shown above, and read out to those who cannot see it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves and marks.
    pub series: Vec<Series>,
    /// Horizontal lines for reference.
    pub rules: Vec<Rule>,
}

/// One curve. Points without finite coordinates are left out.
#[derive(Debug, Clone)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points, in order.
    pub points: Vec<(f64, f64)>,
    /// Index into [`COLOURS`], round and round, and the mark that goes with it; `None`: the place in the plot.
    pub colour: Option<usize>,
    /// A mark on every point, or on the last only.
    pub all_marks: bool,
    /// Whether lines join the points.
    pub joined: bool,
}

/// A dashed horizontal line: a bound, a published value.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The name beside the line.
    pub name: String,
    /// The height of the line.
    pub value: f64,
}

impl Plot {
    /// An empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), rules: Vec::new() }
    }

    /// The same plot with one more curve.
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// The same plot with one more horizontal line.
    pub fn with_rule(mut self, name: impl Into<String>, value: f64) -> Self {
        self.rules.push(Rule { name: name.into(), value });
        self
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|s| s.shown(self).next().is_none())
    }

    /// For a page; `width` in CSS pixels.
    pub fn svg(&self, width: f64) -> String {
        draw::svg(self, width, "")
    }

    /// For a file of its own, with its own background.
    pub fn file(&self) -> String {
        let style = "<style>svg{color:#1d2530;background:#fff}\
                     @media(prefers-color-scheme:dark){svg{color:#dfe5ec;background:#14181d}}</style>";
        draw::svg(self, WIDE, style)
    }
}

impl Series {
    /// Points joined by straight lines, a mark on each.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, colour: None, all_marks: true, joined: true }
    }

    /// Points joined by straight lines, a mark at the end.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { all_marks: false, ..Self::new(name, points) }
    }

    /// Marks that are not joined.
    pub fn marks(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { joined: false, ..Self::new(name, points) }
    }

    /// With this colour and mark: the same method looks the same in several plots.
    pub fn coloured(self, colour: usize) -> Self {
        Self { colour: Some(colour), ..self }
    }

    /// The points that can be drawn on the plot's axes.
    fn shown(&self, plot: &Plot) -> impl Iterator<Item = (f64, f64)> {
        let (x, y) = (plot.x.scale, plot.y.scale);
        self.points.iter().copied().filter(move |p| x.takes(p.0) && y.takes(p.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        Plot::new("a < b", Axis::log("seconds"), Axis::linear("energy"))
            .with(Series::line("mf", vec![(0.0, 3.0), (0.1, 9.0), (1.0, 4.0), (10.0, f64::NAN), (20.0, 3.5)]))
            .with(Series::new("x & y", vec![(0.2, 5.0), (2.0, 6.0)]))
            .with_rule("bound", 3.0)
    }

    /// Every opening tag is closed: enough of a check that browsers will take it.
    fn balanced(svg: &str) {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap();
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{svg}");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn plot_has_title_axes_and_series_escaped() {
        for svg in [plot().svg(WIDE), plot().svg(NARROW), plot().file()] {
            balanced(&svg);
            for text in ["a &lt; b", "x &amp; y", "seconds", "energy", "bound", "mf"] {
                assert!(svg.contains(text), "{text} is missing in {svg}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("class=\"curve\"").count(), 2);
        }
        assert!(plot().file().contains("prefers-color-scheme"));
    }

    #[test]
    fn plot_coordinates_lie_within_the_drawing() {
        let width = 400.0;
        let svg = plot().svg(width);
        let path = svg.split("class=\"curve\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        let numbers: Vec<f64> = path
            .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
            .filter_map(|t| t.parse().ok())
            .collect();
        let [x0, y0, x1, y1, x2, y2] = numbers[..] else { panic!("{path}") };
        assert!(numbers.iter().all(|v| (0.0..=width).contains(v)), "{path}");
        assert!(x0 < x1 && x1 < x2, "time runs to the right: {path}");
        assert!(y0 < y1 && y1 < y2, "less is lower: {path}");
    }

    #[test]
    fn plot_of_odd_data_is_drawn_without_nan() {
        assert!(Plot::default().is_empty());
        balanced(&Plot::default().svg(WIDE));
        let nothing = Plot::default().with(Series::new("n", vec![(f64::NAN, 1.0)]));
        assert!(nothing.is_empty());
        let one = Plot::default().with(Series::new("one", vec![(2.0, 7.0)]));
        assert!(!one.is_empty());
        balanced(&one.svg(WIDE));
        let huge = Plot::default().with(Series::new("huge", vec![(0.0, -1e300), (1.0, 1e300)]));
        balanced(&huge.svg(WIDE));
        assert!(!huge.svg(WIDE).contains("inf") && !huge.svg(WIDE).contains("NaN"));
    }
}
