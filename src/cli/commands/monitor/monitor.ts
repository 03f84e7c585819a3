import { homedir } from 'node:os'
import { join } from 'node:path'
import { product } from '../../../brand.ts'
import { openPrivateFolder, PrivateFileError } from '../../../host/private-files.ts'
import { hourMs, isoTime, minuteMs, secondMs } from '../../../time.ts'
import { action, type OptionValues, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { untilSignal } from '../../frame/until-signal.ts'
import { readPolicy } from '../proofs/policy-file.ts'
import { openChecks } from './checks.ts'
import type { Finding, Report } from './findings.ts'
import { followOnce } from './follower.ts'
import { LogUnreachable, openLogSource, waitFor } from './log-source.ts'
import { type MonitorState, readState, writeState } from './monitor-state.ts'
import { payeesBytesMax, readPayees } from './payee-check.ts'

const options = {
  policy: {
    kind: 'text',
    value: 'FILE',
    about: 'The trust policy (C2SP tlog-policy): the log, its witnesses, the quorum',
  },
  log: { kind: 'text', value: 'URL', about: 'The gateway whose log is followed' },
  state: {
    kind: 'text',
    value: 'FOLDER',
    about: 'Where the monitor keeps where it stands. Default: ~/.local/state/penstock/monitor',
  },
  payees: {
    kind: 'text',
    value: 'FILE',
    about: 'Lines of RECEIPT_HASH ADDRESS: payouts of these receipts must go to these addresses',
  },
  'announce-hours': {
    kind: 'number',
    value: 'N',
    about: 'How long the log must announce a batch before it is settled (default 24)',
    min: 0,
    max: 8_760,
  },
  every: { kind: 'number', value: 'SECONDS', about: 'Look so often (default 60)', min: 5, max: 86_400 },
  once: { kind: 'flag', about: 'Look once and end: exit code 1 if there is a finding, 3 if the log does not answer' },
} as const

const announceHoursDefault = 24
const everyDefault = 60
/** Witnesses sign a checkpoint seconds after it is made: a monitor that keeps looking gives them this long. */
const quorumWithinMs = 5 * minuteMs
/** Entries between two writes of the state while a long log is read. */
const keptEvery = 65_536
/** Findings of one round that are shown; more than a person reads. */
const shownMax = 1_000

type Given = OptionValues<typeof options>

async function payeesIn(name: string | undefined): Promise<ReadonlyMap<string, string>> {
  if (name === undefined) return new Map()
  const file = Bun.file(name)
  if (!(await file.exists())) throw new UsageFault(`The payees ${name} cannot be read`)
  if (file.size > payeesBytesMax) throw new UsageFault(`The payees ${name} are larger than ${payeesBytesMax} bytes`)
  return readPayees(await file.text())
}

/** Shows what is found, each finding once for as long as it lasts. */
class Findings {
  private last = new Set<string>()
  private now = new Set<string>()
  count = 0

  constructor(private readonly show: (finding: Finding) => void) {}

  readonly report: Report = (code, subject, detail) => {
    const name = `${code} ${subject}`
    if (this.now.has(name) || this.now.size >= shownMax) return
    this.now.add(name)
    this.count++
    if (!this.last.has(name)) this.show({ code, subject, detail })
  }

  endRound(): void {
    this.last = this.now
    this.now = new Set()
  }
}

function openFolder(path: string) {
  try {
    return openPrivateFolder(path)
  } catch (error) {
    if (!(error instanceof PrivateFileError)) throw error
    throw new CliFailure(error.message)
  }
}

async function opened(given: Given, session: Session, signal: AbortSignal) {
  if (given.policy === undefined)
    throw new UsageFault('--policy is missing: a monitor must know the log and its witnesses')
  if (given.log === undefined || !/^https?:\/\//.test(given.log))
    throw new UsageFault('--log must be the URL of a gateway')
  const policy = await readPolicy(given.policy)
  if (policy.logs.length === 0) throw new UsageFault('The policy names no log')
  const home = session.env.HOME ?? homedir()
  const folder = openFolder(given.state ?? join(home, '.local/state', product, 'monitor'))
  const state = readState(folder)
  const announceMs = (given['announce-hours'] ?? announceHoursDefault) * hourMs
  const checks = openChecks(state.checks, { payees: await payeesIn(given.payees), announceMs })
  return { policy, folder, state, checks, source: openLogSource(given.log, signal) }
}

type Opened = Awaited<ReturnType<typeof opened>>

/** One look. Resolves with the state after it, which is on the disk. */
async function look(parts: Opened, before: MonitorState, given: Given, findings: Findings): Promise<MonitorState> {
  const { checks, folder, source, policy } = parts
  const { report } = findings
  const checkStates = () => Object.fromEntries(checks.map((check) => [check.name, check.state()]))
  const keep = (state: MonitorState) => {
    writeState(folder, state)
    return state
  }
  let keptAt = before.ahead?.size ?? before.followed.tree.size
  const { followed, keys } = await followOnce(
    {
      source,
      policy,
      checks,
      report,
      nowMs: Date.now,
      quorumWithinMs: given.once ? 0 : quorumWithinMs,
      ahead: before.ahead,
      progress: (tree) => {
        if (tree.size - keptAt < keptEvery) return
        keptAt = tree.size
        keep({ followed: before.followed, ahead: tree.copy(), checks: checkStates() })
      },
    },
    before.followed,
  )
  if (keys === null) return keep({ followed, ahead: null, checks: checkStates() })
  const reached = keep({ followed, ahead: null, checks: checkStates() })
  const leaf = (one: Parameters<NonNullable<(typeof checks)[number]['leaf']>>[0]) => {
    for (const check of checks) check.leaf?.(one, report)
  }
  const round = { source, logKeys: keys, tree: followed.tree.tree(), nowMs: Date.now(), report, leaf }
  for (const check of checks) await check.round?.(round)
  return keep({ ...reached, checks: checkStates() })
}

async function run(given: Given, json: boolean, session: Session): Promise<number | undefined> {
  const { terminal } = session
  const ended = new AbortController()
  const parts = await opened(given, session, ended.signal)
  const line = (fields: object, text: string) => terminal.out(json ? `${JSON.stringify(fields)}\n` : `${text}\n`)
  const findings = new Findings(({ code, subject, detail }) => {
    const at = isoTime(Date.now())
    line({ at, finding: code, subject, detail }, `${at} FINDING ${code} ${subject}: ${detail}`)
  })
  if (!given.once) void untilSignal().then(() => ended.abort())
  let { state } = parts
  let isReachable = true
  do {
    try {
      state = await look(parts, state, given, findings)
      const { origin, tree } = state.followed
      if (given.once || !isReachable) {
        const at = isoTime(Date.now())
        line(
          { at, origin, size: tree.size, findings: findings.count },
          `${at} ${origin ?? 'the log'}: ${tree.size} entries read`,
        )
      }
      isReachable = true
    } catch (error) {
      if (!(error instanceof LogUnreachable) || ended.signal.aborted) {
        if (ended.signal.aborted) break
        throw error
      }
      if (given.once) throw new CliFailure(`The log does not answer as one: ${error.message}`, [], exitCodes.unanswered)
      if (isReachable) terminal.err(`${isoTime(Date.now())} The log does not answer as one: ${error.message}\n`)
      isReachable = false
      // What was read on the way is on the disk.
      state = readState(parts.folder)
      for (const check of parts.checks) check.forget?.((state.ahead ?? state.followed.tree).size)
    }
    findings.endRound()
    if (!given.once) await waitFor((given.every ?? everyDefault) * secondMs, ended.signal)
  } while (!given.once && !ended.signal.aborted)
  return findings.count > 0 ? exitCodes.failed : undefined
}

export const monitor: Verb = {
  name: 'monitor',
  about: 'Follow the public log of a gateway, and report what should not be',
  actions: action({
    about:
      'Read every entry of a public log as it grows. Check that it only grows, that the witnesses of your policy sign it, and that payout batches pay for receipts in it. Print findings as lines',
    options,
    run: ({ options: given, json }, session) => run(given, json, session),
  }),
}
