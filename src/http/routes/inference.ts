import { Elysia } from 'elysia'
import { chatRoute } from '../../actors/telemetry/metrics.ts'
import { documented } from '../frame/reads.ts'
import { describe } from '../frame/route-table.ts'
import type { InferenceDoor } from '../inference/inference-door.ts'
import { pinQuery } from '../inference/pin.ts'

/** The rest is beyond the specification. */
const specified: ReadonlySet<string> = new Set([chatRoute])

// The handler reads query and body by itself: nothing of Elysia's stands on its path.
const describedAs = ({ operation: { summary, description, schema, response, form }, route }: InferenceDoor) => ({
  ...describe({ summary, description, tags: [specified.has(route) ? 'Inference' : 'Inference (extension)'] }),
  ...documented(schema, pinQuery, form === undefined ? 'application/json' : 'multipart/form-data'),
  ...(response === undefined
    ? {}
    : { responses: { 200: { description: 'The answer', content: { 'application/json': { schema: response } } } } }),
})

/**
 * Every operation, by one handler (§28); chat is endpoint 2. The gateway's door hands most requests over without asking the
 * router; what comes here are those that name their path another way.
 */
export function inferenceRoutes(doors: ReadonlyMap<string, InferenceDoor>) {
  const app = new Elysia()
  for (const [path, door] of doors) {
    app.post(path, ({ request, server }) => door.handle(request, server), {
      parse: 'none',
      // The other base URLs are the same routes: OpenAPI knows the canonical one.
      detail: { ...describedAs(door), security: [{ GatewayKey: [] }], ...(path === door.route ? {} : { hide: true }) },
    })
  }
  return app
}
