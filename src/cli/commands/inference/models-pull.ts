import { pullFailureWords } from '../../../actions/frame/pull-words.ts'
import { hasEnded, type Pull, type PullList } from '../../../protocol/wire/nodes/pulls.ts'
import { secondMs } from '../../../time.ts'
import { action } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { CliFailure, exitCodes } from '../../frame/failure.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'
import { nodeIdOf, oneNode } from '../../frame/node-id.ts'
import { printable, type Terminal } from '../../frame/terminal.ts'
import { untilSignal } from '../../frame/until-signal.ts'

const lookEveryMs = secondMs
const barWidth = 24

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(2)

/** `[########········] 33 %  2.10 of 6.40 GB`. */
function bar({ state, bytes_done: done, bytes_total: total }: Pull): string {
  if (total === null || total === 0) return state
  const full = Math.floor((barWidth * done) / total)
  const drawn = `[${'#'.repeat(full)}${'·'.repeat(barWidth - full)}]`
  const rest = done >= total && !hasEnded(state) ? ', checking' : ''
  return `${drawn} ${Math.floor((100 * done) / total)} %  ${gigabytes(done)} of ${gigabytes(total)} GB${rest}`
}

/** On a terminal one line that changes; elsewhere one for each state. */
class Shown {
  private last = ''

  constructor(private readonly terminal: Terminal) {}

  update(pull: Pull): void {
    const { terminal } = this
    if (!terminal.outIsTerminal) {
      if (pull.state !== this.last) terminal.err(`${pull.state}\n`)
      this.last = pull.state
      return
    }
    const text = bar(pull)
    terminal.err(`\r${text.padEnd(this.last.length)}`)
    this.last = text
  }

  end(): void {
    if (this.terminal.outIsTerminal && this.last !== '') this.terminal.err('\n')
  }
}

async function now(gateway: GatewayClient, nodeId: string, { pull_id: id }: Pull): Promise<Pull> {
  const { pulls } = await gateway.admin<PullList>({ path: `${oneNode(nodeId)}/pulls` })
  const found = pulls.find(({ pull_id: each }) => each === id)
  if (found !== undefined) return found
  throw new CliFailure('The agent was started anew and has forgotten the pull.', [
    'Pull again: it goes on where it stopped.',
  ])
}

const done = ({ model, memory_mb: mb, context_length: tokens }: Pull, node: string): string =>
  `${printable(model)} is on ${node}: about ${mb} MiB of memory for ${tokens} tokens of context, by its header.
Its entry in models.json there can be edited. Try it: ./penstock chat ${printable(model)}
`

export const pull = action({
  about:
    'Have the agent of a node fetch a model, from where the owner of the computer allows it, and add it to models.json',
  operands: [
    { name: 'NODE', about: 'The node’s name or its id (node_…), as `nodes list` shows them' },
    { name: 'REF', about: 'hf:org/repo:QUANT, ollama:name:tag, or the https address of a .gguf file (with --sha256)' },
  ],
  options: {
    model: { kind: 'text', value: 'ID', about: 'What requests call it (default: after the reference)' },
    'context-length': {
      kind: 'number',
      value: 'TOKENS',
      min: 256,
      max: 16_777_216,
      about: 'Tokens that it must have room for (default: 8192, or what it can)',
    },
    sha256: { kind: 'text', value: 'HEX', about: 'What the file must hash to' },
    detach: { kind: 'flag', about: 'Do not wait: `models pulls NODE` shows how it goes' },
    ...reasonOption,
  },
  run: async ({ operands: [node = '', ref = ''], options, json }, session) => {
    const gateway = session.gateway()
    const nodeId = await nodeIdOf(gateway, node)
    const { model, sha256, 'context-length': tokens } = options
    const body = {
      ref,
      ...(model === undefined ? {} : { model }),
      ...(sha256 === undefined ? {} : { sha256 }),
      ...(tokens === undefined ? {} : { context_length: tokens }),
      ...reasonBody(options.reason),
    }
    let seen = await gateway.admin<Pull>({ method: 'POST', path: `${oneNode(nodeId)}/pulls`, body })
    const shown = new Shown(session.terminal)
    let left = options.detach
    const leave = () => {
      left = true
    }
    const leaving = options.detach ? null : untilSignal().then(leave)
    while (!left && !hasEnded(seen.state)) {
      if (!json) shown.update(seen)
      await Promise.race([Bun.sleep(lookEveryMs), leaving])
      if (!left) seen = await now(gateway, nodeId, seen)
    }
    if (!json) shown.update(seen)
    shown.end()
    if (seen.failure !== null)
      throw new CliFailure(pullFailureWords(seen.failure), [`${seen.pull_id} (${seen.failure})`])
    session.show(json, seen, () =>
      seen.state === 'done'
        ? done(seen, node)
        : `It goes on there: ./penstock models pulls ${node}\nTo end it: ./penstock models cancel-pull ${node} ${seen.pull_id}\n`,
    )
    return seen.state === 'cancelled' ? exitCodes.failed : undefined
  },
})
