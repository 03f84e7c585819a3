import { node } from './commands/nodes/node.ts'
import { entryOf } from './frame/action.ts'
import { runProcess } from './frame/run-process.ts'

/** The agent by itself, as gateways serve it in one file: `bun agent.mjs --gateway …` is `penstock node --gateway …`. */
await runProcess([entryOf(node)], ['node', ...process.argv.slice(2)])
