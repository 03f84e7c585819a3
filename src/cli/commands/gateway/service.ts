import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { product } from '../../../brand.ts'
import { bunSettings } from '../../../host/bun-settings.ts'
import type { Platform } from '../../../host/platform/platform.ts'
import type { ServiceScope } from '../../../host/platform/service.ts'
import { lockFiles } from '../../../host/port-holder.ts'
import { readConfig } from '../../../settings/config.ts'
import { settings } from '../../../settings/table.ts'
import { action, type OptionSpecs, type OptionValues, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { fields } from '../../frame/table.ts'
import { type OwnProgram, ownProgram, pathOf } from '../services/own-program.ts'
import {
  checkScope,
  checkUser,
  install,
  installOptions,
  ownUser,
  scopeOf,
  serviceReport,
  serviceWords,
  systemOption,
  thisPlatform,
  uninstall,
  variablesOf,
} from '../services/services.ts'

const options = {
  ...installOptions,
  'data-dir': {
    kind: 'text',
    value: 'DIR',
    about:
      'The data folder (default: SVC_DATA_DIR, else that of npm start; with --system always /var/lib/penstock/data)',
  },
} as const satisfies OptionSpecs

const systemData = `/var/lib/${product}/data`

/** The folder that a start by hand would use, so that a gateway goes on with what it has. */
function dataFolder(
  given: string | undefined,
  scope: ServiceScope,
  { platform, program, session }: { platform: Platform; program: OwnProgram; session: Session },
): string {
  if (scope === 'system') {
    if (given === undefined) return systemData
    throw new UsageFault(`--data-dir: a service of the system may write to ${systemData} alone`)
  }
  const named = given ?? session.env.SVC_DATA_DIR ?? ''
  if (named !== '') return resolve(named)
  if (program.root !== null) return join(program.root, '.data')
  return join(platform.folders(session.env, session.env.HOME ?? homedir()).data, product, 'gateway')
}

/** Settings of this shell that the service will not have. Their names alone are told. `file`: null where it has no file for them. */
function leftOut(
  session: Session,
  variables: Readonly<Record<string, string>>,
  file: string | null,
): readonly string[] {
  const names = Object.keys(settings).filter((name) => {
    const value = session.env[name] ?? ''
    return value !== '' && name !== 'SVC_DATA_DIR' && variables[name] !== value
  })
  if (names.length === 0) return []
  const where =
    file === null ? 'Set them as variables of your account.' : `Put them into ${file} and restart the service.`
  return [`The service does not have these settings of your shell: ${names.join(', ')}. ${where}`]
}

function installation(given: OptionValues<typeof options>, session: Session, json: boolean) {
  const platform = thisPlatform()
  const scope = scopeOf(given)
  checkScope(platform, scope)
  const program = ownProgram()
  if (program.isAgent) throw new CliFailure('This program is the agent alone. Use: install')
  const data = dataFolder(given['data-dir'], scope, { platform, program, session })
  const { file, variables, note } = variablesOf(platform, { kind: 'gateway', scope }, given, session)
  const read = readConfig({ SVC_DATA_DIR: data, ...variables })
  if ('faults' in read) throw new CliFailure(`The settings in ${file} have faults:`, read.faults)
  if (scope === 'system') {
    checkUser(product, `Make it: useradd --system --home-dir /var/lib/${product} ${product}`)
  }
  return {
    platform,
    spec: {
      kind: 'gateway' as const,
      scope,
      command: [...program.words, 'serve'],
      folder: program.folder,
      environment: {
        SVC_DATA_DIR: data,
        ...bunSettings,
        ...pathOf(platform, scope, program, session.env),
      },
      environmentFile: file,
      runAs: scope === 'system' ? product : ownUser(),
    },
    lock: join(data, lockFiles.gateway),
    dryRun: given['dry-run'],
    json,
    notes: [
      ...(note === null ? [] : [note]),
      ...leftOut(session, variables, platform.keeper.readsVariables ? file : null),
    ],
  }
}

export const service: Verb = {
  name: 'service',
  about: 'Let the system of this computer run the gateway, from now on and after each start',
  actions: {
    install: action({
      about:
        'Let the system of this computer run the gateway, from now on and after each start: systemd, launchd or the Task Scheduler',
      options,
      run: async ({ options: given, json }, session) => {
        await install(session, installation(given, session, json))
        return undefined
      },
    }),
    uninstall: action({
      about: 'Stop the service of the gateway and remove it. Its data and settings stay',
      options: systemOption,
      run: async ({ options: given, json }, session) => {
        const stays = 'The data and the settings stay.'
        await uninstall(session, { kind: 'gateway', scope: scopeOf(given) }, { json, stays })
        return undefined
      },
    }),
    status: action({
      about: 'Show what the system says of the service of the gateway. The exit code is 0 only if it runs',
      options: {},
      run: async ({ json }, session) => {
        const report = await serviceReport(session, 'gateway')
        session.show(json, report, (shown) =>
          fields(session.terminal, [
            ['Service', serviceWords(shown)],
            ['Log', shown?.logs ?? null],
          ]),
        )
        return report?.state === 'running' ? exitCodes.ok : exitCodes.failed
      },
    }),
  },
}
