import { homedir, userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { product } from '../../../brand.ts'
import type { Platform } from '../../../host/platform/platform.ts'
import { platformNamed } from '../../../host/platform/platforms.ts'
import {
  ServiceFault,
  type ServiceName,
  type ServiceScope,
  type ServiceSpec,
  type ServiceState,
} from '../../../host/platform/service.ts'
import {
  checkKeeper,
  installService,
  planService,
  type ServiceWork,
  serviceState,
  uninstallService,
} from '../../../host/platform/service-work.ts'
import { fileHolder } from '../../../host/port-holder.ts'
import type { OptionSpecs } from '../../frame/action.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { fields } from '../../frame/table.ts'
import { untilSignal } from '../../frame/until-signal.ts'
import { readVariablesFile, type VariablesFile } from './variables-file.ts'

export const systemOption = {
  system: {
    kind: 'flag',
    about: 'A service of the whole computer, which needs root (default: of this user)',
  },
} as const satisfies OptionSpecs

export const installOptions = {
  ...systemOption,
  'variables-file': {
    kind: 'text',
    value: 'FILE',
    about: 'A private file with settings and secrets for the service, NAME=value a line',
  },
  'dry-run': { kind: 'flag', about: 'Show what would be written and run, and do nothing' },
} as const satisfies OptionSpecs

/** How this system keeps services. Throws `CliFailure` for a system without a row in `platforms.ts`. */
export function thisPlatform(): Platform {
  const platform = platformNamed()
  if (platform === null) throw new CliFailure(`Services of ${process.platform} are not known to this program.`)
  return platform
}

const homeOf = ({ env }: Session) => env.HOME ?? env.USERPROFILE ?? homedir()
/** Windows has no such number, and its services ask for none. */
const uidOf = () => process.getuid?.() ?? 0

const workOf = ({ keeper }: Platform, session: Session, signal?: AbortSignal): ServiceWork => ({
  keeper,
  place: { home: homeOf(session), uid: uidOf(), env: session.env },
  ...(signal === undefined ? {} : { signal }),
})

export const scopeOf = ({ system }: { readonly system: boolean }): ServiceScope => (system ? 'system' : 'user')

/** Where the variables of a service are, unless its owner names another file. */
function variablesFileOf(platform: Platform, service: ServiceName, session: Session): string {
  const name = service.kind === 'gateway' ? product : `${product}-node`
  if (service.scope === 'system') return `/etc/${name}.env`
  return join(platform.folders(session.env, homeOf(session)).config, product, `${name}.env`)
}

export interface ServiceVariables extends VariablesFile {
  readonly file: string
}

/** What a service will have beside its unit. Throws `CliFailure` for a file that cannot be read. */
export function variablesOf(
  platform: Platform,
  service: ServiceName,
  given: { readonly 'variables-file': string | undefined },
  session: Session,
): ServiceVariables {
  const named = given['variables-file']
  const file = named === undefined ? variablesFileOf(platform, service, session) : resolve(named)
  if (platform.keeper.readsVariables) return { file, ...readVariablesFile(file) }
  if (named === undefined) return { file, variables: {}, note: null }
  throw new UsageFault(
    `--variables-file: on ${platform.title} a service has the variables of your account. Set them there.`,
  )
}

/** Throws `CliFailure` unless an administrator asks. */
export function checkScope(platform: Platform, scope: ServiceScope): void {
  if (scope === 'user') return
  if (platform.systemServices === null) {
    throw new CliFailure(`--system: on ${platform.title} a service belongs to a user. Leave the option out.`)
  }
  if (uidOf() !== 0) throw new CliFailure('--system needs root. Repeat the command with sudo, or leave out --system.')
}

/** Throws `CliFailure` where the system does not know the user. */
export function checkUser(name: string, advice: string): void {
  const known = Bun.spawnSync(['id', '-u', name], { stdio: ['ignore', 'ignore', 'ignore'] }).exitCode === 0
  if (!known) throw new CliFailure(`There is no user ${name}. ${advice}`)
}

export const ownUser = (): string => userInfo().username

export interface Installation {
  readonly platform: Platform
  readonly spec: ServiceSpec
  /** The file that the program keeps locked while it runs. */
  readonly lock: string
  readonly dryRun: boolean
  readonly json: boolean
  readonly notes: readonly string[]
}

async function saying<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof ServiceFault ? new CliFailure(error.message) : error
  }
}

/** A program that somebody started by hand would keep the service from its folder. */
async function checkFree(work: ServiceWork, { spec, lock }: Installation): Promise<void> {
  const pid = fileHolder(lock)
  if (pid === null) return
  const { state } = await serviceState(work, spec)
  if (state === 'running' || state === 'starting') return
  throw new CliFailure(`Process ${pid} uses the folder already. End it first, then repeat this.`)
}

function planned(session: Session, { spec, platform, notes, json }: Installation, work: ServiceWork): void {
  const { file, changes, steps } = planService(work, spec)
  const plan = {
    file: file.path,
    text: file.text,
    changes,
    commands: steps.map(({ command }) => command),
    logs: platform.keeper.logs(spec, work.place),
    notes,
  }
  session.show(
    json,
    plan,
    (plan) => `${changes ? 'Would write' : 'Is there already:'} ${plan.file}

${plan.text}
Would run
${plan.commands.map((command) => `  ${command.join(' ')}\n`).join('')}
Nothing was changed.
${plan.notes.map((note) => `${note}\n`).join('')}`,
  )
}

/** Installs a service, or shows how. */
export async function install(session: Session, installation: Installation): Promise<void> {
  const { platform, spec, json } = installation
  const leaving = new AbortController()
  const work = workOf(platform, session, leaving.signal)
  await saying(async () => {
    if (installation.dryRun) return planned(session, installation, work)
    checkKeeper(work)
    await checkFree(work, installation)
    void untilSignal().then(() => leaving.abort())
    const notes = [...(await installService(work, spec)), ...installation.notes]
    const { state, pid } = await serviceState(work, spec)
    const installed = { file: platform.keeper.path(spec, work.place), state, pid, logs: logsOf(work, spec), notes }
    session.show(
      json,
      installed,
      (done) => `${installedText(session, done)}${notes.map((note) => `${note}\n`).join('')}`,
    )
  })
}

const logsOf = ({ keeper, place }: ServiceWork, service: ServiceName) => keeper.logs(service, place)

function installedText(
  session: Session,
  { file, state, pid, logs }: { file: string; state: ServiceState['state']; pid: number | null; logs: string },
): string {
  return fields(session.terminal, [
    ['Service', pid === null ? state : `${state}, process ${pid}`],
    ['Written', file],
    ['Log', logs],
  ])
}

/** Removes a service, and nothing that it has kept. */
export async function uninstall(
  session: Session,
  service: ServiceName,
  { json, stays }: { readonly json: boolean; readonly stays: string },
): Promise<void> {
  const platform = thisPlatform()
  checkScope(platform, service.scope)
  const leaving = new AbortController()
  const work = workOf(platform, session, leaving.signal)
  void untilSignal().then(() => leaving.abort())
  const removed = await saying(() => uninstallService(work, service))
  const file = platform.keeper.path(service, work.place)
  session.show(json, { removed, file }, () =>
    removed
      ? `The service is stopped, and ${file} is removed. ${stays}\n`
      : `There is no service: ${file} is absent.\n`,
  )
}

export interface ServiceReport extends ServiceState {
  readonly scope: ServiceScope
  /** The command that shows its log; null: there is no such service. */
  readonly logs: string | null
}

/** What the system says of a service: of the user's own one or, where that is absent, of the whole computer's. */
export async function serviceReport(session: Session, kind: ServiceSpec['kind']): Promise<ServiceReport | null> {
  const platform = platformNamed()
  if (platform === null) return null
  const work = workOf(platform, session)
  const own = await serviceState(work, { kind, scope: 'user' })
  const isThere = ({ state }: ServiceState) => state !== 'absent' && state !== 'unknown'
  const wide =
    isThere(own) || platform.systemServices === null ? null : await serviceState(work, { kind, scope: 'system' })
  const [scope, report] = wide !== null && isThere(wide) ? (['system', wide] as const) : (['user', own] as const)
  return { ...report, scope, logs: report.state === 'absent' ? null : logsOf(work, { kind, scope }) }
}

/** For a person. */
export function serviceWords(report: ServiceReport | null): string {
  if (report === null || report.state === 'unknown') return 'unknown: this computer’s system does not say'
  if (report.state === 'absent') return 'none'
  const process = report.pid === null ? '' : `, process ${report.pid}`
  const starts = report.automatic === true ? '' : ', does not start by itself'
  return `${report.state}${process}${starts} (${report.scope === 'user' ? 'of this user' : 'of the whole computer'})`
}
