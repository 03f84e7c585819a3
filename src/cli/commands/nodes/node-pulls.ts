import { resolve } from 'node:path'
import type { NodeOptions } from '../../../node/node-options.ts'
import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import type { OptionSpecs, OptionValues } from '../../frame/action.ts'
import { UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'

/** Where the owner lets the agent fetch models from; nowhere by default. */
export const pullOptions = {
  'pull-from': {
    kind: 'texts',
    value: 'hf|ollama|nodes|URL',
    about:
      'Let operators of the gateway have models fetched from there: Hugging Face, Ollama’s library, other nodes of yours, or files below an https address. Another address of a hub: hf=URL. Needs a models.json. Can be repeated',
  },
  'pull-folder': {
    kind: 'text',
    value: 'FOLDER',
    about: 'Where fetched models are put (default: models, beside the keys)',
  },
  'pull-budget': {
    kind: 'number',
    value: 'GB',
    min: 1,
    max: 1_000_000,
    about: 'What fetched models may take of the disk together (default 100)',
  },
  'pull-command': {
    kind: 'text',
    value: 'JSON',
    about:
      'The command of a fetched model in models.json, as a list with {file} and {context} (default: llama-server with -m, --alias, --port and -c)',
  },
  'give-models': {
    kind: 'flag',
    about: 'Let operators of the gateway copy the files that models.json names for its models to other nodes of yours',
  },
} as const satisfies OptionSpecs

const gigabyte = 1_000_000_000
const wordsMax = 256

function commandGiven(json: string): readonly string[] {
  const words = foreignJson(json)
  const isCommand = Array.isArray(words) && words.length <= wordsMax && words.every((word) => typeof word === 'string')
  if (isCommand && words.some((word) => String(word).includes('{file}'))) return words as string[]
  throw new UsageFault('--pull-command must be a JSON list of texts, one of them with {file}')
}

/** Throws `UsageFault` for what names no place. */
export async function pullsGiven(
  given: OptionValues<typeof pullOptions>,
  dataDir: string,
  env: Session['env'],
): Promise<Pick<NodeOptions, 'pulls' | 'givesModels'>> {
  const { 'pull-from': places, 'pull-folder': folder, 'pull-budget': budget, 'pull-command': command } = given
  const gives = given['give-models'] ? { givesModels: true } : {}
  if (places.length === 0) {
    if (folder === undefined && budget === undefined && command === undefined) return gives
    throw new UsageFault('--pull-folder, --pull-budget and --pull-command need --pull-from')
  }
  const { pullSource } = await import('../../../node/pulls/pull-sources.ts')
  const sources = places.map((place) => {
    const source = pullSource(place)
    if (source === null)
      throw new UsageFault(
        `--pull-from: ${place} is neither hf, ollama, nodes nor an address like https://models.example`,
      )
    return source
  })
  return {
    ...gives,
    pulls: {
      sources,
      root: folder === undefined ? resolve(dataDir, 'models') : resolve(folder),
      env,
      ...(budget === undefined ? {} : { budgetBytes: budget * gigabyte }),
      ...(command === undefined ? {} : { command: commandGiven(command) }),
    },
  }
}
