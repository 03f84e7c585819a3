import { pullFailureWords } from '../../../actions/frame/pull-words.ts'
import { hasEnded, type Pull, type PullList } from '../../../protocol/wire/nodes/pulls.ts'
import { secondMs } from '../../../time.ts'
import { CliFailure } from '../../frame/failure.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'
import { oneNode } from '../../frame/node-id.ts'
import type { Session } from '../../frame/session.ts'
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

/**
 * Shows how a pull goes until it has ended, or the person presses Ctrl-C, which leaves it alone. Throws `CliFailure` with the reason
 * of one that failed.
 */
export async function followPull(
  session: Pick<Session, 'terminal'>,
  gateway: GatewayClient,
  at: { readonly nodeId: string; readonly begun: Pull; readonly detach: boolean; readonly json: boolean },
): Promise<Pull> {
  const { nodeId, begun, detach, json } = at
  let seen = begun
  const shown = new Shown(session.terminal)
  let left = detach
  const leave = () => {
    left = true
  }
  const leaving = detach ? null : untilSignal().then(leave)
  while (!left && !hasEnded(seen.state)) {
    if (!json) shown.update(seen)
    await Promise.race([Bun.sleep(lookEveryMs), leaving])
    if (!left) seen = await now(gateway, nodeId, seen)
  }
  if (!json) shown.update(seen)
  shown.end()
  if (seen.failure !== null) throw new CliFailure(pullFailureWords(seen.failure), [`${seen.pull_id} (${seen.failure})`])
  return seen
}

/** What a person reads when `followPull` has ended. `node`: as the person named it. */
export function pullEnd(pull: Pull, node: string): string {
  const { state, model, memory_mb: mb, context_length: tokens } = pull
  if (state !== 'done') {
    return `It goes on there: ./penstock models pulls ${node}\nTo end it: ./penstock models cancel-pull ${node} ${pull.pull_id}\n`
  }
  return `${printable(model)} is on ${node}: about ${mb} MiB of memory for ${tokens} tokens of context, by its header.
Its entry in models.json there can be edited. Try it: ./penstock chat ${printable(model)}
`
}
