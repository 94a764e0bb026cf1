//! What experiments and commands ask for: the model's kernels, how unary files are read, where a data set is.

use std::path::PathBuf;

use relaxcrf::model::{FilterKind, Kernel, Learned, Normalization};

use crate::specs::{BilateralSpec, CompatSpec, CostSpec, GaussianSpec, VoidSpec};

/// The pairwise part of the energy.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOptions {
    /// Kernels on position.
    pub gaussian: Vec<GaussianSpec>,
    /// Kernels on position and colour.
    pub bilateral: Vec<BilateralSpec>,
    /// `None`: symmetric, or as the preset says.
    pub normalization: Option<Normalization>,
    /// The filter behind every kernel.
    pub filter: FilterKind,
    /// Cost of two labels.
    pub compat: CompatSpec,
    /// Scale each filter to the true Gaussian sum.
    pub calibrate: bool,
    /// What a preset has learned about unary energies and label costs.
    pub learned: Option<Learned>,
}

impl ModelOptions {
    /// The kernels on an image.
    pub fn kernels(&self, image: &[f32]) -> Vec<Kernel> {
        let bilateral = self.bilateral.iter().map(|b| b.kernel(image.to_vec()));
        self.gaussian.iter().map(GaussianSpec::kernel).chain(bilateral).collect()
    }

    /// The label costs of the kernels that have one of their own, in the order of [`ModelOptions::kernels`].
    pub fn kernel_costs(&self) -> Vec<Option<&CostSpec>> {
        let gaussian = self.gaussian.iter().map(GaussianSpec::cost);
        gaussian.chain(self.bilateral.iter().map(BilateralSpec::cost)).collect()
    }

    /// Whether label costs depend on the numbers of the labels.
    fn costs_depend_on_labels(&self) -> bool {
        let depends =
            |cost: &&CostSpec| matches!(cost, CostSpec::Table(table) if *table != CompatSpec::Potts);
        self.compat != CompatSpec::Potts || self.kernel_costs().iter().flatten().any(depends)
    }

    /// The same model with half of all weights.
    pub fn halved(&self) -> Self {
        Self {
            gaussian: self.gaussian.iter().map(GaussianSpec::halved).collect(),
            bilateral: self.bilateral.iter().map(BilateralSpec::halved).collect(),
            ..self.clone()
        }
    }

    /// The flags that make this model, all of them: they identify stored results.
    pub fn describe(&self) -> String {
        let mut flags = vec![self.kernel_flags()];
        flags.push(format!("--normalization {}", self.normalization.unwrap_or_default()));
        flags.push(format!("--filter {}", self.filter));
        if self.compat != CompatSpec::Potts {
            flags.push(format!("--compat {}", self.compat));
        }
        if self.calibrate {
            flags.push("--calibrate".into());
        }
        if let Some(Learned { temperature, bias, label_costs }) = &self.learned {
            flags.push(format!(
                "learned temperature {temperature}, bias {bias:?}, label costs {label_costs:?}"
            ));
        }
        flags.join(" ")
    }

    /// The kernels as they are typed.
    pub fn kernel_flags(&self) -> String {
        let gaussian = self.gaussian.iter().map(GaussianSpec::flag);
        gaussian.chain(self.bilateral.iter().map(BilateralSpec::flag)).collect::<Vec<_>>().join(" ")
    }
}

/// How unary files are understood.
#[derive(Debug, Clone, PartialEq)]
pub struct UnaryOptions {
    /// Axis of the labels in arrays; negative counts from the last.
    pub label_axis: isize,
    /// Probability that a hard label is right.
    pub confidence: f32,
    /// Hard label that means undecided.
    pub unsure: Option<u16>,
    /// Number of labels of hard labels, whose values are then taken as they are.
    pub num_labels: Option<u16>,
    /// Whether values of sparse label maps are kept, because label costs depend on them.
    pub keep_values: bool,
}

impl Default for UnaryOptions {
    fn default() -> Self {
        Self { label_axis: 0, confidence: 0.7, unsure: None, num_labels: None, keep_values: false }
    }
}

impl UnaryOptions {
    /// The same for a model: only Potts costs do not depend on the numbers of labels.
    pub fn for_model(&self, model: &ModelOptions) -> Self {
        Self { keep_values: model.costs_depend_on_labels(), ..self.clone() }
    }
}

/// A directory of images with unaries and truth.
#[derive(Debug, Clone, PartialEq)]
pub struct DataOptions {
    /// The directory.
    pub data: PathBuf,
    /// Use only the first images of a split.
    pub limit: Option<usize>,
    /// Folder of the true label maps.
    pub truth: String,
    /// True label that counts nowhere; `None`: as `labels.json` says, else 255.
    pub void: Option<VoidSpec>,
}
