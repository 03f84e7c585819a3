import type { Node } from '../../protocol/wire/admin/admin.ts'
import type { Modality, ServedWork } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { ActField } from './act.ts'

/** A kind that is missing here does not compile. */
const everyKind: Readonly<Record<Modality, true>> = {
  chat: true,
  embedding: true,
  rerank: true,
  audio: true,
  image: true,
}

/** What a person has typed; null: nothing. The gateway refuses a word that is no kind of work. */
export function kindsTyped(text: string | undefined): readonly Modality[] | null {
  const words = (text ?? '').split(/[\s,]+/).filter((word) => word !== '')
  return words.length === 0 ? null : (words as Modality[])
}

export const kindsText = (given: readonly Modality[] | null | undefined): string => given?.join(', ') ?? ''

/** A field for kinds of work. */
export const workField = (value = ''): ActField => ({
  name: 'serves',
  label: 'Kinds of work',
  hint: `${Object.keys(everyKind).join(', ')}, with commas between; empty: what the server says`,
  value,
})

/** All that is declared of a node, in words. */
export const servedText = (served: ServedWork | null): string =>
  Object.entries(served ?? {})
    .map(([model, work]) => `${model}: ${kindsText(work)}`)
    .join('; ')

/** The node's declaration with another line for one model; null takes the line away. */
export function withLine(
  { serves }: Pick<Node, 'serves'>,
  model: string,
  work: readonly Modality[] | null,
): ServedWork {
  const others = Object.entries(serves ?? {}).filter(([name]) => name !== model)
  return Object.fromEntries(work === null ? others : [...others, [model, work]])
}
