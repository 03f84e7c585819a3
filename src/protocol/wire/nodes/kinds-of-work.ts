export const modalities = ['chat', 'embedding', 'rerank', 'audio', 'image'] as const
/** A kind of work that a model does. */
export type Modality = (typeof modalities)[number]

/** Stands for every model of a node that has no line of its own. */
export const everyModel = '*'

/** The declared work of a node's models, by the names that the node uses; of each the main kind first. */
export type ServedWork = Readonly<Record<string, readonly Modality[]>>

/** null: an operator has declared nothing of this model there. */
export function declaredWork(served: ServedWork | null, model: string): readonly Modality[] | null {
  if (served === null) return null
  const name = [model, everyModel].find((each) => Object.hasOwn(served, each))
  return name === undefined ? null : (served[name] ?? null)
}

const isModality = (word: string): word is Modality => (modalities as readonly string[]).includes(word)

/** How a person writes the work of one model, and of those of a node: `rerank`, `MODEL=chat,embedding`. */
export const workForm = `KIND,… or MODEL=KIND,…, where KIND is one of ${modalities.join(', ')}`

/** A word where a kind of work belongs. */
export class NoKindOfWork extends Error {
  constructor(word: string) {
    super(`${JSON.stringify(word)} is no kind of work, or stands there twice. Give ${workForm}.`)
  }
}

/** Kinds with commas between. Throws `NoKindOfWork`. */
export function kindsIn(text: string): readonly Modality[] {
  const words = text.split(',').map((word) => word.trim())
  const wrong = words.find((word, at) => !isModality(word) || words.indexOf(word) !== at)
  if (wrong !== undefined) throw new NoKindOfWork(wrong)
  return words.filter(isModality)
}

/** Lines in the form `workForm`; null: there is none. Of two lines of one model the later stands. Throws `NoKindOfWork`. */
export function servedIn(lines: readonly string[]): ServedWork | null {
  const served = new Map<string, readonly Modality[]>()
  for (const line of lines) {
    const cut = line.lastIndexOf('=')
    served.set(cut < 0 ? everyModel : line.slice(0, cut).trim(), kindsIn(line.slice(cut + 1)))
  }
  return served.size === 0 ? null : Object.fromEntries(served)
}

/** As `servedIn` reads them. */
export const servedLines = (served: ServedWork | null): readonly string[] =>
  Object.entries(served ?? {}).map(([model, kinds]) =>
    model === everyModel ? kinds.join(',') : `${model}=${kinds.join(',')}`,
  )
