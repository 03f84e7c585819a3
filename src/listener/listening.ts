import type { AnyElysia } from 'elysia'
import { BunAdapter } from 'elysia/adapter/bun'
import { websocket } from 'elysia/ws'
import { canonicalRoutes } from './canonical-routes.ts'

type Adapter = typeof BunAdapter
type Place = Parameters<ReturnType<Adapter['listen']>>[0]

export interface ListeningOptions {
  readonly slashedId: RegExp | null
  /** Answers a request whose path is not canonical. */
  readonly refuse: (request: Request) => Response | Promise<Response>
}

/**
 * For `adapter` of Elysia: `listen` opens a server of Bun that answers only canonical paths. Elysia's own `listen` has
 * routes that match what Bun made of a path.
 */
export const listening = ({ slashedId, refuse }: ListeningOptions): Adapter => ({
  ...BunAdapter,
  listen: (app: AnyElysia) => (place: Place) => {
    app.compile()
    const paths = app.routes.map(({ path }) => path)
    const { config } = app
    app.server = Bun.serve({
      ...config.serve,
      ...(typeof place === 'object' ? place : { port: Number(place) }),
      websocket: { ...config.websocket, ...websocket },
      routes: canonicalRoutes({ paths, slashedId, refuse, answer: app.fetch }),
      fetch: refuse,
    } as Bun.Serve.Options<unknown>)
  },
})
