pub mod identify;
