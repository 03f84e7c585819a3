import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes } from '../../frame/failure.ts'
import { untilSignal } from '../../frame/until-signal.ts'

export const serve: Verb = {
  name: 'serve',
  about: 'Start the gateway',
  actions: action({
    about: 'Start the gateway, as npm start does. Environment variables configure it: see docs/reference/settings.md',
    options: {},
    run: async ({ json }, session) => {
      const { start, failedStart, isProcess, runProgram } = await import('../../../main.ts')
      if (isProcess()) {
        await runProgram()
        return exitCodes.ok
      }
      let replace: (() => Promise<void>) | null = null
      const ended = untilSignal(() => replace)
      const server = await start(session.env, { quiet: json }).catch((error: unknown) => {
        throw new CliFailure(failedStart(error, session.env))
      })
      replace = server.replace
      if (json) session.terminal.out(`${JSON.stringify({ base_url: server.url, port: server.port })}\n`)
      await ended
      await server.stop()
      // Everything is written and closed, and a timer that is left must not delay the exit.
      process.exit(exitCodes.ok)
    },
  }),
}
