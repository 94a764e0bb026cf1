//! The parameters of a model that can be learned, and their logarithms as the optimiser's variables.

use std::ops::Range;

use relaxcrf::{Error, Result};

/// A group of parameters that is freed, or not, as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// One temperature that all unary energies are divided by.
    Temperature,
    /// Weights of the kernels.
    Weights,
    /// Widths of the kernels.
    Widths,
    /// An energy added to each label's unaries.
    Bias,
    /// A factor of each label's costs.
    Costs,
}

impl Part {
    /// All parts, in the order in which they are freed.
    pub const ALL: [Part; 5] = [Self::Temperature, Self::Weights, Self::Widths, Self::Bias, Self::Costs];

    /// What users read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::Weights => "weights",
            Self::Widths => "widths",
            Self::Bias => "bias",
            Self::Costs => "label costs",
        }
    }

    /// Standard deviation of the prior around the start: of a logarithm, or of an energy for the bias.
    fn deviation(self) -> f64 {
        match self {
            Self::Temperature => 0.3,
            Self::Weights => 0.7,
            Self::Widths => 0.4,
            Self::Bias => 0.25,
            Self::Costs => 0.3,
        }
    }
}

/// What a kernel compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// Position: one width.
    Gaussian,
    /// Position and colour: two widths.
    Bilateral,
    /// Given features: one width for all.
    Features,
}

/// One kernel's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelParameters {
    /// What it compares.
    pub kind: KernelKind,
    /// Its weight; every pair counts twice.
    pub weight: f64,
    /// Standard deviations: of position, then of colours.
    pub widths: Vec<f64>,
}

/// Everything that can be learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Unary energies are divided by this.
    pub temperature: f64,
    /// Added to each label's unary energies after that.
    pub bias: Vec<f64>,
    /// The kernels.
    pub kernels: Vec<KernelParameters>,
    /// Labels i and j cost `(c_i + c_j) / 2`; ones are Potts costs.
    pub costs: Vec<f64>,
}

impl Parameters {
    /// The start: kernels as given, unaries and Potts costs unchanged.
    pub fn new(labels: usize, kernels: Vec<KernelParameters>) -> Result<Self> {
        for kernel in &kernels {
            for (what, &value) in
                std::iter::once(("weight", &kernel.weight)).chain(kernel.widths.iter().map(|w| ("width", w)))
            {
                if !(value > 0.0 && value.is_finite()) {
                    let expected = "a positive, finite number (learning changes logarithms)";
                    return Err(Error::value(format!("{what} of a kernel to learn"), value, expected));
                }
            }
        }
        Ok(Self { temperature: 1.0, bias: vec![0.0; labels], kernels, costs: vec![1.0; labels] })
    }

    /// Whether all labels cost the same.
    pub fn has_potts_costs(&self) -> bool {
        self.costs.iter().all(|&c| c == 1.0)
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.bias.len()
    }

    /// The variables of the optimiser: logarithms of positive parameters, and the bias as it is.
    pub fn variables(&self) -> Vec<f64> {
        let kernels = self.kernels.iter();
        std::iter::once(self.temperature.ln())
            .chain(self.bias.iter().copied())
            .chain(
                kernels.flat_map(|k| std::iter::once(k.weight.ln()).chain(k.widths.iter().map(|w| w.ln()))),
            )
            .chain(self.costs.iter().map(|c| c.ln()))
            .collect()
    }

    /// The parameters of these variables.
    pub fn with_variables(&self, variables: &[f64]) -> Self {
        let mut values = variables.iter().copied();
        let mut next = || values.next().unwrap_or(0.0);
        let temperature = next().exp();
        let bias = self.bias.iter().map(|_| next()).collect();
        let kernels = self
            .kernels
            .iter()
            .map(|k| KernelParameters {
                kind: k.kind,
                weight: next().exp(),
                widths: k.widths.iter().map(|_| next().exp()).collect(),
            })
            .collect();
        Self { temperature, bias, kernels, costs: self.costs.iter().map(|_| next().exp()).collect() }
    }

    /// Where a kernel's variables begin: its weight, then its widths.
    pub(crate) fn kernel_at(&self, kernel: usize) -> usize {
        1 + self.labels() + self.kernels[..kernel].iter().map(|k| 1 + k.widths.len()).sum::<usize>()
    }

    /// Where the variables of the label costs begin.
    pub(crate) fn costs_at(&self) -> usize {
        self.kernel_at(self.kernels.len())
    }

    /// The bias's variables.
    pub(crate) fn bias_at(&self) -> Range<usize> {
        1..1 + self.labels()
    }

    /// The part that each variable belongs to.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Temperature];
        parts.extend(self.bias.iter().map(|_| Part::Bias));
        for kernel in &self.kernels {
            parts.push(Part::Weights);
            parts.extend(kernel.widths.iter().map(|_| Part::Widths));
        }
        parts.extend(self.costs.iter().map(|_| Part::Costs));
        parts
    }

    /// Half the squared distance from the start in standard deviations of the prior, and its gradient.
    pub fn prior(&self, start: &[f64], variables: &[f64]) -> (f64, Vec<f64>) {
        let terms = self.parts().into_iter().zip(start.iter().zip(variables));
        let (mut value, mut gradient) = (0.0, Vec::with_capacity(variables.len()));
        for (part, (s, v)) in terms {
            let precision = part.deviation().powi(-2);
            value += 0.5 * precision * (v - s).powi(2);
            gradient.push(precision * (v - s));
        }
        (value, gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Parameters {
        let kernel =
            |kind, weight, widths: &[f64]| KernelParameters { kind, weight, widths: widths.to_vec() };
        let kernels = vec![
            kernel(KernelKind::Gaussian, 0.75, &[1.0]),
            kernel(KernelKind::Bilateral, 1.0, &[67.0, 3.0]),
        ];
        Parameters::new(3, kernels).unwrap()
    }

    #[test]
    fn variables_lead_back_to_their_parameters() {
        let mut p = example();
        (p.temperature, p.bias[1], p.costs[2], p.kernels[1].widths[1]) = (1.5, -0.3, 0.7, 4.0);
        let back = p.with_variables(&p.variables());
        assert!((back.temperature - 1.5).abs() < 1e-12 && (back.kernels[1].widths[1] - 4.0).abs() < 1e-12);
        assert_eq!((back.bias[1], p.parts().len()), (-0.3, p.variables().len()));
        assert_eq!(p.parts()[p.kernel_at(1)], Part::Weights);
        assert_eq!(p.parts()[p.costs_at()], Part::Costs);
        assert!(example().has_potts_costs() && !p.has_potts_costs());
    }

    #[test]
    fn prior_is_zero_at_the_start_and_grows_with_the_distance() {
        let p = example();
        let start = p.variables();
        assert_eq!(p.prior(&start, &start).0, 0.0);
        let mut moved = start.clone();
        moved[0] += 0.3;
        let (value, gradient) = p.prior(&start, &moved);
        assert!((value - 0.5).abs() < 1e-12 && gradient[0] > 0.0 && gradient[1] == 0.0);
    }

    #[test]
    fn kernel_without_weight_cannot_be_learned() {
        let mut kernel = example().kernels[0].clone();
        kernel.weight = 0.0;
        assert!(Parameters::new(2, vec![kernel]).unwrap_err().to_string().contains("positive"));
    }
}
