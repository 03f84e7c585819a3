import MiniSearch from 'minisearch'
import { lexicalModelId, type RuntimeStatus } from './runtime.ts'
import { wordsOf } from './words.ts'

/** Rankings that run at once; they share one thread. */
const lexicalSlots = 4

/** No work holds the thread for longer than this and one document, ms. */
const sliceMs = 8
/** Word × document pairs in one step of scoring (4 ms, measured). */
const pairsPerStep = 8_192

interface WordedDocument {
  readonly id: number
  readonly text: string
}

export function lexicalStatus(inFlight: number): RuntimeStatus {
  const model = {
    id: lexicalModelId,
    contextLength: null,
    ready: true,
    loaded: true,
    modality: 'rerank',
    ranking: { scoreKind: 'probability', documentsMax: null },
  } as const
  const slotsFree = Math.max(0, lexicalSlots - inFlight)
  return { kind: 'other', state: 'ready', models: [model], slotsTotal: lexicalSlots, slotsFree, queueDepth: null }
}

/**
 * BM25+ (MiniSearch: k 1.2, b 0.7, δ 0.5; a document's length is its number of different words) of each document, in
 * order, over these documents alone, as s ÷ (s + 1): 0 where no word of the query occurs, always below 1. Rejects with
 * the signal's reason.
 */
export async function lexicalScores(
  query: string,
  documents: readonly string[],
  signal: AbortSignal,
): Promise<readonly number[]> {
  const turn = createTurn(signal)
  const asked = [...new Set(wordsOf(query))]
  const index = indexFor(new Set(asked))
  for (const [id, text] of documents.entries()) {
    index.add({ id, text })
    await turn()
  }
  const sums = new Array<number>(documents.length).fill(0)
  // In steps: over all the words at once the library's own bookkeeping is quadratic in them (1.2 s for 3 000 words).
  const step = Math.max(1, Math.floor(pairsPerStep / documents.length))
  for (let at = 0; at < asked.length; at += step) {
    addScores(sums, index, asked.slice(at, at + step))
    await turn()
  }
  return sums.map((sum) => sum / (sum + 1))
}

/** Keeps only the query's words: the rest of a document counts toward its length and is not looked up again. */
function indexFor(asked: ReadonlySet<string>): MiniSearch<WordedDocument> {
  return new MiniSearch<WordedDocument>({
    fields: ['text'],
    tokenize: wordsOf,
    processTerm: (word) => (asked.has(word) ? word : null),
  })
}

function addScores(sums: number[], index: MiniSearch<WordedDocument>, words: readonly string[]): void {
  const found = index.search(words.join(' '), { tokenize: (text) => text.split(' '), combineWith: 'OR' })
  for (const { id, score, queryTerms } of found) {
    // The library multiplies by the number of words that matched; plain BM25+ adds and no more.
    sums[id as number] = (sums[id as number] ?? 0) + score / queryTerms.length
  }
}

/** Gives the thread to others once a slice is used up. */
function createTurn(signal: AbortSignal): () => Promise<void> {
  let beganMs = performance.now()
  return async () => {
    signal.throwIfAborted()
    if (performance.now() - beganMs < sliceMs) return
    await new Promise((resolve) => setImmediate(resolve))
    signal.throwIfAborted()
    beganMs = performance.now()
  }
}
