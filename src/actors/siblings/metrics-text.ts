/** What one process shows at `/metrics`. */
export interface ProcessText {
  readonly index: number
  readonly text: string
}

const described = /^# (?:HELP|TYPE) (\S+)/
const sample = /^([a-zA-Z_:][\w:]*)(\{)?(.*)$/

const silentName = 'svc_processes_silent'
const silentMetric = [
  `# HELP ${silentName} Processes of this gateway whose series are missing here, because they did not answer within a second`,
  `# TYPE ${silentName} gauge`,
]

/**
 * The metrics of several processes as one text: each series says which `process` it is of, as several gateways are told
 * apart by their `instance`. A sum over all falls when a process ends, and a rate over such a sum would be wrong.
 * The lines of one metric stand together, as the format asks. `silent`: how many processes are missing from the text.
 */
export function joinedMetrics(texts: readonly ProcessText[], silent: number): string {
  const families = new Map<string, { readonly head: Set<string>; readonly samples: string[] }>()
  for (const { index, text } of texts.toSorted((a, b) => a.index - b.index)) {
    let family = families.get('')
    for (const line of text.split('\n')) {
      const name = described.exec(line)?.[1]
      if (name !== undefined) {
        family = families.get(name) ?? { head: new Set(), samples: [] }
        families.set(name, family)
        family.head.add(line)
        continue
      }
      const [, metric, labelled, rest = ''] = sample.exec(line) ?? []
      if (metric === undefined) continue
      const labels = labelled === undefined ? `{process="${index}"}${rest}` : `{process="${index}",${rest}`
      family?.samples.push(`${metric}${labels}`)
    }
  }
  const lines = [...families.values()].flatMap(({ head, samples }) => [...head, ...samples])
  return `${[...lines, ...silentMetric, `${silentName} ${silent}`].join('\n')}\n`
}
