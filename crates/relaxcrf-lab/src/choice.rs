//! The kernels and the method of a run: the options, else the preset, else the default preset.

use anyhow::Result;
use relaxcrf::model::FilterKind;
use relaxcrf::presets::{self, Preset};
use relaxcrf::solve::Pipeline;

use crate::options::ModelOptions;
use crate::specs::{BilateralSpec, GaussianSpec, PresetSpec};

/// The model options and the method of a run.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Kernels, normalisation and filter, none of them left open.
    pub model: ModelOptions,
    /// The method.
    pub method: Pipeline,
}

impl Choice {
    /// Options win over the preset, and a preset wins over the default one.
    pub fn new(model: &ModelOptions, preset: Option<&PresetSpec>, method: Option<&Pipeline>) -> Result<Self> {
        let preset = preset.map(PresetSpec::resolve).transpose()?;
        let usual = preset.as_ref().unwrap_or_else(|| presets::default());
        let method = method.cloned().map_or_else(|| usual.pipeline(), Ok)?;
        let mut model = with_preset(model, preset.as_ref());
        if model.filter == FilterKind::Auto {
            model.filter = method.preferred_filter();
        }
        Ok(Self { model, method })
    }

    /// Whether the kernels are those of the default preset.
    pub fn has_default_kernels(&self) -> bool {
        let usual = with_preset(
            &ModelOptions { gaussian: Vec::new(), bilateral: Vec::new(), ..self.model.clone() },
            None,
        );
        (&self.model.gaussian, &self.model.bilateral) == (&usual.gaussian, &usual.bilateral)
    }
}

/// The kernels for methods that are named elsewhere, as in `compare`.
pub fn model(model: &ModelOptions, preset: Option<&PresetSpec>) -> Result<ModelOptions> {
    Ok(with_preset(model, preset.map(PresetSpec::resolve).transpose()?.as_ref()))
}

/// Fills options that were not given from the preset, or, without preset and kernels, from the default preset.
pub fn with_preset(args: &ModelOptions, preset: Option<&Preset>) -> ModelOptions {
    let mut args = args.clone();
    let no_kernels = args.gaussian.is_empty() && args.bilateral.is_empty();
    let Some(preset) = preset.or(no_kernels.then(presets::default)) else { return args };
    if args.gaussian.is_empty() {
        args.gaussian = vec![GaussianSpec::new(preset.gaussian.0, preset.gaussian.1)];
    }
    if args.bilateral.is_empty() {
        let (sigma_xy, sigma_rgb, weight) = preset.bilateral;
        args.bilateral = vec![BilateralSpec::new(sigma_xy, sigma_rgb, weight)];
    }
    args.normalization = args.normalization.or(Some(preset.normalization));
    args.learned = args.learned.or_else(|| preset.learned.clone());
    args
}

#[cfg(test)]
mod tests {
    use relaxcrf::model::Normalization;

    use super::*;
    use crate::specs::CompatSpec;

    fn none() -> ModelOptions {
        ModelOptions {
            gaussian: Vec::new(),
            bilateral: Vec::new(),
            normalization: None,
            filter: FilterKind::Auto,
            compat: CompatSpec::Potts,
            calibrate: false,
            learned: None,
        }
    }

    fn choose(model: &ModelOptions, preset: Option<&str>, method: Option<&str>) -> Choice {
        let preset: Option<PresetSpec> = preset.map(|name| name.parse().unwrap());
        let method = method.map(|m| m.parse().unwrap());
        Choice::new(model, preset.as_ref(), method.as_ref()).unwrap()
    }

    #[test]
    fn default_preset_sets_kernels_and_method_without_options() {
        let chosen = choose(&none(), None, None);
        let default = presets::default();
        assert_eq!(chosen.method.to_string(), default.method);
        assert_eq!(chosen.model.gaussian, [GaussianSpec::new(default.gaussian.0, default.gaussian.1)]);
        assert_eq!(chosen.model.bilateral.len(), 1);
        assert_eq!(chosen.model.filter, FilterKind::LatticeClassic);
        assert!(chosen.has_default_kernels());
        assert!(!choose(&none(), Some("voc"), None).has_default_kernels());
    }

    #[test]
    fn preset_sets_kernels_method_and_normalization() {
        let chosen = choose(&none(), Some("text"), None);
        assert_eq!(chosen.method.to_string(), "mf5");
        assert_eq!(chosen.model.normalization, Some(Normalization::None));
        let chosen = choose(&none(), Some("paper-voc-dc"), None);
        assert_eq!(
            (chosen.method.to_string().as_str(), chosen.model.filter),
            ("qp+dc-neg", FilterKind::Auto)
        );
    }

    #[test]
    fn given_options_win_over_the_preset() {
        let typed = ModelOptions {
            gaussian: vec![GaussianSpec::new(9.0, 9.0)],
            filter: FilterKind::Lattice,
            ..none()
        };
        let chosen = choose(&typed, Some("text"), Some("mf"));
        assert_eq!(chosen.method.to_string(), "mf");
        assert_eq!(chosen.model.gaussian, typed.gaussian);
        assert_eq!(chosen.model.bilateral, [BilateralSpec::new(23.0, 7.0, 10.0)]);
        assert_eq!(chosen.model.filter, FilterKind::Lattice);
        // Kernels alone: no others are added to them.
        let chosen = choose(&typed, None, None);
        assert!(chosen.model.bilateral.is_empty());
        assert_eq!(chosen.method.to_string(), presets::default().method);
    }
}
