import type { PullFailure } from '../../protocol/wire/nodes/pulls.ts'

const says: Readonly<Record<PullFailure, string>> = {
  not_allowed: 'The owner of the computer lets its agent fetch nothing from there: see --pull-from of the agent.',
  not_found: 'There is no such model, or the hub wants a token for it.',
  ambiguous: 'Several files fit. Name one, as in hf:org/repo:Q4_K_M.',
  hub_unavailable:
    'The hub, or the other computer, does not answer, or stopped in the midst. Pull again: it goes on where it stopped.',
  hub_malformed: 'This version does not understand the hub’s answer.',
  wrong_hash: 'The file is not the one that the hub named. It was deleted.',
  over_budget: 'It does not fit into the disk space that the owner gives to models: see --pull-budget of the agent.',
  disk_full: 'The disk of the computer is full.',
  disk_error: 'The folder of the models could not be written: see the log of the agent.',
  does_not_fit: 'It does not fit into the memory that models.json gives to models.',
  not_a_model: 'The file is no GGUF model that could be estimated.',
  models_file: 'The entry could not be written: models.json is missing, broken or full, or has a model of this name.',
  not_given:
    'The owner of the other computer does not let this model be copied: see --give-models of the agent there, and files in its models.json.',
  agent_stopped: 'The agent was stopped. Pull again: it goes on where it stopped.',
}
/** Why a pull has failed, and what to do, for operators. */
export const pullFailureWords = (failure: PullFailure): string => says[failure]
