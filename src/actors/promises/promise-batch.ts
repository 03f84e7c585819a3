import { batchMax, type Promised, promisesText, promiseText, promiseWriter } from '../../protocol/log/promise.ts'

const hashBytes = 32
/** Base64 writes three bytes as four digits, so a hash that begins at a third byte has digits of its own. */
const strideBytes = 33
const strideDigits = 44
/** Of a hash in a text of all hashes: 43 digits, and the padding. */
const hashDigits = 43

/** The hashes of one tree, its leaves first; used again by the next one. A tree of n leaves has at most 2n - 1. */
const nodes = Buffer.alloc((2 * batchMax - 1) * strideBytes)
const nodeAt = Array.from({ length: 2 * batchMax - 1 }, (_, at) =>
  nodes.subarray(at * strideBytes, at * strideBytes + hashBytes),
)
const pair = new Uint8Array(1 + 2 * hashBytes)
pair[0] = 1

type Row = readonly number[]

/** The hash of a promise is the last of its text, so that what stands before it is written once for all. */
function hashLeaves(stamp: Omit<Promised, 'hash'>, hashes: readonly string[]): Row {
  const head = `\0${promiseText({ ...stamp, hash: '' })}`
  return hashes.map((hash, at) => {
    Bun.SHA256.hash(head + hash, nodeAt[at] as Buffer)
    return at
  })
}

/** Two neighbours become one hash; a last one without a neighbour goes up as it is. `next`: the first free node. */
function rowAbove(row: Row, next: number): Row {
  const above: number[] = []
  for (let at = 0; at + 1 < row.length; at += 2) {
    pair.set(nodeAt[row[at] as number] as Buffer, 1)
    pair.set(nodeAt[row[at + 1] as number] as Buffer, 1 + hashBytes)
    const node = next + above.length
    Bun.SHA256.hash(pair, nodeAt[node] as Buffer)
    above.push(node)
  }
  if (row.length % 2 === 1) above.push(row[row.length - 1] as number)
  return above
}

/** All rows of the tree, the leaves first. */
function rowsOver(leaves: Row): readonly Row[] {
  const rows = [leaves]
  let next = leaves.length
  for (let row = leaves; row.length > 1; ) {
    const above = rowAbove(row, next)
    next += row.length >> 1
    rows.push(above)
    row = above
  }
  return rows
}

/**
 * For each leaf the hashes of its path, as JSON strings with commas between them. From the root down, so that what the paths of
 * neighbours have in common is put together once.
 */
function pathsOf(rows: readonly Row[]): readonly string[] {
  const digits = nodes.toString('base64', 0, (2 * (rows[0] as Row).length - 1) * strideBytes)
  let paths: readonly string[] = ['']
  for (let level = rows.length - 2; level >= 0; level--) {
    const above = paths
    const row = rows[level] as Row
    paths = row.map((_, at) => {
      const rest = above[at >> 1] as string
      const sibling = row[at ^ 1]
      if (sibling === undefined) return rest
      const from = sibling * strideDigits
      const hash = digits.slice(from, from + hashDigits)
      return rest === '' ? `"${hash}="` : `"${hash}=",${rest}`
    })
  }
  return paths
}

/**
 * The promises of these receipts, at most `batchMax`, as JSON, below one signature over the root of their tree (RFC 9162); one alone is
 * signed by itself. Native hashes take a sixth of the time of `merkle-log.ts`, which runs in browsers.
 */
export function promiseTexts(
  stamp: Omit<Promised, 'hash'>,
  hashes: readonly string[],
  sign: (text: string) => string,
): readonly string[] {
  const [only] = hashes
  if (only !== undefined && hashes.length === 1) {
    return [promiseWriter(stamp, sign(promiseText({ ...stamp, hash: only })))(only, '')]
  }
  const size = hashes.length
  const rows = rowsOver(hashLeaves(stamp, hashes))
  const paths = pathsOf(rows)
  const [root] = rows.at(-1) as Row
  const write = promiseWriter(stamp, sign(promisesText(stamp, size, nodeAt[root as number] as Buffer)))
  return hashes.map((hash, index) =>
    write(hash, `,"batch":{"index":${index},"size":${size},"proof":[${paths[index]}]}`),
  )
}
