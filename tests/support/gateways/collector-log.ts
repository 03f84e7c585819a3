/** One collection of JavaScriptCore, as `BUN_JSC_logGC=1` has it written. */
export interface Collection {
  /** `eden`: of the young objects alone, and what it finds alive is old from then on. */
  readonly kind: 'eden' | 'full'
  /** Of the objects that it walked. */
  readonly visitedKb: number
  /** Of the heap after it, with what objects hold outside of it. */
  readonly heapKb: number
  /** Lines of requests in the log since the collection before. */
  readonly requests: number
}

/** What the collections of a load did for one of its requests. */
export interface CollectorWork {
  readonly edens: number
  readonly fulls: number
  /** Of the requests between the first and the last collection. */
  readonly requests: number
  /** What collections of the young found alive, and thereby promoted, for one request. */
  readonly visitedKb: number
  /**
   * What the heap grew by at these collections, for one request: besides that, the memory outside of the heap that Bun's own
   * objects told of, which is taken off at the next full collection, alive or not: 0.55 kB of each request.
   */
  readonly grownKb: number
}

/** The collector writes a line piece by piece, and lines of our own log stand between its pieces. */
const logLine = /\{"[^\n]*\}\n/g
const requestLine = '"event":"request"'
const collection = /START \w \d+kb => (Eden|Full)Collection,(.*?)=> (\d+)kb, p=/gs
const visited = / v=(\d+)kb/g

/** The collector's own text, and where in it a request was logged. */
function withoutLog(text: string): { readonly lines: string; readonly requestsAt: readonly number[] } {
  const requestsAt: number[] = []
  let taken = 0
  const lines = text.replaceAll(logLine, (line, at: number) => {
    if (line.includes(requestLine)) requestsAt.push(at - taken)
    taken += line.length
    return ''
  })
  return { lines, requestsAt }
}

/** All that have ended, in their order, from what a gateway wrote to stderr. */
export function readCollections(text: string): readonly Collection[] {
  const { lines, requestsAt } = withoutLog(text)
  let counted = 0
  return [...lines.matchAll(collection)].map(({ index, 0: whole, 1: kind, 2: steps = '', 3: heapKb }) => {
    const before = counted
    while ((requestsAt[counted] ?? Number.POSITIVE_INFINITY) <= index + whole.length) counted++
    return {
      kind: kind === 'Eden' ? 'eden' : 'full',
      visitedKb: Number([...steps.matchAll(visited)].at(-1)?.[1] ?? 0),
      heapKb: Number(heapKb),
      requests: counted - before,
    }
  })
}

/** The first collection is where the counting begins: what it found was there before. */
export function collectorWork(collections: readonly Collection[]): CollectorWork {
  const counted = collections.slice(1)
  const edens = counted.filter(({ kind }) => kind === 'eden')
  const requests = counted.reduce((sum, each) => sum + each.requests, 0)
  let grownKb = 0
  let visitedKb = 0
  for (const [at, { kind, heapKb, visitedKb: walkedKb }] of counted.entries()) {
    if (kind === 'full') continue
    grownKb += heapKb - (collections[at]?.heapKb ?? heapKb)
    visitedKb += walkedKb
  }
  return {
    edens: edens.length,
    fulls: counted.length - edens.length,
    requests,
    visitedKb: visitedKb / requests,
    grownKb: grownKb / requests,
  }
}
