/** What an answer says, by the places of its values: a text for each, in the order of the document. */
export type Leaves = Readonly<Record<string, string>>

/** Of a stream, the places of which the pieces make one text. */
const pieces = /(?:^|\.)(?:content|reasoning_content|text|thinking|arguments|partial_json|delta)$/

function collect(value: unknown, place: string, into: Map<string, string[]>): void {
  if (typeof value === 'object' && value !== null) {
    const entries = Array.isArray(value) ? value.map((each, at) => [String(at), each] as const) : Object.entries(value)
    if (entries.length === 0) into.set(place, [...(into.get(place) ?? []), JSON.stringify(value)])
    for (const [name, each] of entries) collect(each, place === '' ? name : `${place}.${name}`, into)
    return
  }
  into.set(place, [...(into.get(place) ?? []), typeof value === 'string' ? value : JSON.stringify(value)])
}

/** Of a whole answer. */
export function leavesOf(answer: unknown): Leaves {
  const into = new Map<string, string[]>()
  collect(answer, '', into)
  return Object.fromEntries([...into].map(([place, values]) => [place, values.join('')]))
}

/**
 * Of a stream, whatever number of events its pieces come in: texts are put together, of everything else each value counts
 * once, in order. `event`: the name of each kind of event, in order.
 */
export function leavesOfStream(text: string): Leaves {
  const into = new Map<string, string[]>()
  const names: string[] = []
  for (const block of text.split('\n\n')) {
    const lines = block.split('\n')
    const name = lines.find((line) => line.startsWith('event: '))?.slice('event: '.length)
    const data = lines.find((line) => line.startsWith('data: '))?.slice('data: '.length)
    if (data === undefined) continue
    if (name !== undefined && names.at(-1) !== name) names.push(name)
    collect(data === '[DONE]' ? { done: true } : JSON.parse(data), name ?? '', into)
  }
  const joined = [...into].map(([place, values]) => {
    if (pieces.test(place)) return [place, values.filter((value) => value !== 'null').join('')] as const
    return [place, values.filter((value, at) => value !== values[at - 1]).join(' → ')] as const
  })
  return Object.fromEntries([...(names.length === 0 ? [] : [['event', names.join(' ')] as const]), ...joined])
}
