// placeholder until the engine is chosen
use super::cells::StoreError;
use std::path::Path;
pub type FileCells = super::memory::MemoryCells;
impl FileCells {
    pub fn open(_path: &Path) -> Result<Self, StoreError> {
        Ok(Self::default())
    }
}
