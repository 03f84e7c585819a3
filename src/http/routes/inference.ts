import { Elysia } from 'elysia'
import { chatRoute } from '../../actors/telemetry/metrics.ts'
import { describe } from '../frame/route-table.ts'
import type { InferenceDoor } from '../inference/inference-door.ts'
import { pinQuery } from '../inference/pin.ts'

/** The rest is beyond the specification. */
const specified: ReadonlySet<string> = new Set([chatRoute])

/**
 * Every operation, by one handler (§28); chat is endpoint 2. The gateway's door hands most requests over without asking the
 * router; what comes here are those that name their path another way.
 */
export function inferenceRoutes(doors: ReadonlyMap<string, InferenceDoor>) {
  const app = new Elysia()
  for (const [route, door] of doors) {
    const { summary, description, schema } = door.operation
    app.post(route, ({ request, server }) => door.handle(request, server), {
      parse: 'none',
      detail: {
        ...describe({
          summary,
          description,
          tags: [specified.has(route) ? 'Inference' : 'Inference (extension)'],
          query: pinQuery,
          body: schema,
        }),
        security: [{ gateway: [] }],
      },
    })
  }
  return app
}
