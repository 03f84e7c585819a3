import { product } from '../../../brand.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes } from '../../frame/failure.ts'
import { untilSignal } from '../../frame/until-signal.ts'

/** Faults of the set-up whose text is written for the operator; of anything else only the name is told. */
const told: readonly string[] = ['StartError', 'DataFolderError', 'EmbeddedDatabaseError', 'SettlementPackagesError']
export const serve: Verb = {
  name: 'serve',
  about: 'Start the gateway',
  actions: action({
    about: 'Start the gateway, as npm start does. Environment variables configure it: see docs/reference/settings.md',
    options: {},
    run: async ({ json }, session) => {
      const { start, isProcess, runProgram } = await import('../../../main.ts')
      if (isProcess()) {
        await runProgram()
        return exitCodes.ok
      }
      let replace: (() => Promise<void>) | null = null
      const ended = untilSignal(() => replace)
      const server = await start(session.env, { quiet: json }).catch((error: unknown) => {
        if (error instanceof Error && told.includes(error.name)) throw new CliFailure(error.message)
        throw new CliFailure(`${product} could not start (${error instanceof Error ? error.name : typeof error}).`)
      })
      replace = server.replace
      if (json) session.terminal.out(`${JSON.stringify({ base_url: server.url, port: server.port })}\n`)
      await ended
      await server.stop()
      // All is written and closed; a timer that is left must not hold up the end.
      process.exit(exitCodes.ok)
    },
  }),
}
