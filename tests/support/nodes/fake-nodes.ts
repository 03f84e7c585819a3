import { type FakeNode, type FakeNodeOptions, startFakeNode } from '../../../src/fake-node/fake-node.ts'

/**
 * Runs `body` with so many fake nodes on free ports (`a-`, `b-`, … stand in front of their text) and stops them all
 * afterwards, whatever happened.
 */
export async function withFakeNodes<T>(
  count: number,
  options: FakeNodeOptions | ((at: number) => FakeNodeOptions),
  body: (nodes: readonly FakeNode[]) => Promise<T>,
): Promise<T> {
  const nodes = startFakeNodes(count, options)
  try {
    return await body(nodes)
  } finally {
    for (const node of nodes) node.stop()
  }
}

/** For `beforeAll`/`afterEach`: the caller stops them. */
export function startFakeNodes(
  count: number,
  options: FakeNodeOptions | ((at: number) => FakeNodeOptions) = {},
): readonly FakeNode[] {
  return Array.from({ length: count }, (_, at) =>
    startFakeNode({
      name: `${String.fromCharCode(97 + (at % 26))}-`,
      ...(typeof options === 'function' ? options(at) : options),
    }),
  )
}

/** The node at `at`; throws where there is none, so that tests need no undefined checks. */
export function nodeAt(nodes: readonly FakeNode[], at: number): FakeNode {
  const node = nodes[at]
  if (node === undefined) throw new Error(`no fake node ${at}`)
  return node
}
