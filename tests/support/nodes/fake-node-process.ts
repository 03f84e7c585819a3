import { type FakeNodeOptions, startFakeNode } from '../../../src/fake-node/fake-node.ts'

/** A fake node in a process of its own: `bun tests/support/nodes/fake-node-process.ts <FakeNodeOptions as JSON>`. */
const node = startFakeNode(JSON.parse(process.argv[2] ?? '{}') as FakeNodeOptions)
process.stdout.write(`listening at ${node.url}\n`)
