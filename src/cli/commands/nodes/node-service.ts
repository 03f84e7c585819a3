import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { lockFiles } from '../../../host/port-holder.ts'
import { action, type OptionSpecs, type OptionValues } from '../../frame/action.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { ownProgram, pathOf } from '../services/own-program.ts'
import {
  checkScope,
  checkUser,
  install,
  installOptions,
  ownUser,
  scopeOf,
  systemOption,
  thisPlatform,
  uninstall,
  variablesOf,
} from '../services/services.ts'
import { standingOptions, startGiven } from './node-given.ts'

const options = {
  ...installOptions,
  'run-as': { kind: 'text', value: 'USER', about: 'With --system: the user as whom the agent runs' },
  ...standingOptions,
} as const satisfies OptionSpecs

const valueMax = 4_096

/** The options as words of a command line. What could be a secret in them was refused. */
function wordsOf(given: OptionValues<typeof standingOptions>): readonly string[] {
  return Object.keys(standingOptions).flatMap((name) => {
    const value = given[name as keyof typeof standingOptions]
    if (value === undefined || value === false) return []
    if (value === true) return [`--${name}`]
    const texts = typeof value === 'object' ? value : [String(value)]
    return texts.map((text) => {
      if (text.length > valueMax) throw new UsageFault(`--${name} has more than ${valueMax} characters`)
      if (/\/\/[^/]*@/.test(text)) {
        throw new UsageFault(
          `--${name}: every user of this computer can read the options of a service, so no address may have a password`,
        )
      }
      return `--${name}=${text}`
    })
  })
}

/** The folder of the agent's keys is its user's, and closed to all others. */
function userOf(given: OptionValues<typeof options>): string {
  const { system, 'run-as': user, 'data-dir': folder } = given
  if (!system && user !== undefined) throw new UsageFault('--run-as needs --system')
  if (!system) return ownUser()
  if (user === undefined || folder === undefined) {
    throw new UsageFault(
      '--system needs --run-as USER and --data-dir DIR, the folder of that user where the agent has its keys',
    )
  }
  if (!/^[a-z_][a-z0-9_-]{0,31}$/i.test(user)) throw new UsageFault('--run-as must be the name of a user')
  checkUser(user, 'Make one: useradd --system --create-home USER')
  return user
}

async function isEnrolled(path: string): Promise<boolean> {
  if (!existsSync(path)) return false
  const [{ readEnrollment }, { openPrivateFolder }] = await Promise.all([
    import('../../../node/membership/enrollment.ts'),
    import('../../../host/private-files.ts'),
  ])
  return readEnrollment(openPrivateFolder(path)) !== null
}

const alone =
  'This node belongs to no gateway yet, so its service works for this computer alone. Join one first, with the line of `nodes enroll` or `penstock node --gateway URL`.'

async function installation(given: OptionValues<typeof options>, session: Session, json: boolean) {
  const platform = thisPlatform()
  const scope = scopeOf(given)
  checkScope(platform, scope)
  const runAs = userOf(given)
  const { nodeFolderPath, checkGiven } = await import('../../../node/main.ts')
  const dataDir = resolve(given['data-dir'] ?? nodeFolderPath(session.env))
  const { file, variables, note } = variablesOf(platform, { kind: 'agent', scope }, given, session)
  // As the agent itself would say it, before anything is written.
  const checked = await startGiven(given, dataDir, { ...session.env, ...variables })
  try {
    checkGiven(checked)
  } catch (error) {
    throw error instanceof Error && error.name === 'NodeStartError' ? new CliFailure(error.message) : error
  }
  const program = ownProgram()
  const words = wordsOf({ ...given, 'data-dir': dataDir })
  return {
    platform,
    spec: {
      kind: 'agent' as const,
      scope,
      command: [...program.words, ...(program.isAgent ? [] : ['node']), ...words],
      folder: program.folder,
      environment: pathOf(platform, scope, program, session.env),
      environmentFile: file,
      runAs,
    },
    lock: join(dataDir, lockFiles.agent),
    dryRun: given['dry-run'],
    json,
    notes: [...(note === null ? [] : [note]), ...((await isEnrolled(dataDir)) ? [] : [alone])],
  }
}

export const nodeInstall = action({
  about:
    'Let the system of this computer run the agent, from now on and after each start: systemd, launchd or the Task Scheduler. Takes the options of `node`',
  options,
  run: async ({ options: given, json }, session) => {
    await install(session, await installation(given, session, json))
    return undefined
  },
})

export const nodeUninstall = action({
  about: 'Stop the service of the agent and remove it. The keys of the node stay',
  options: systemOption,
  run: async ({ options: given, json }, session) => {
    const stays = 'The folder of the node stays.'
    await uninstall(session, { kind: 'agent', scope: scopeOf(given) }, { json, stays })
    return undefined
  },
})
