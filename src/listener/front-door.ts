import { Problem } from '../errors.ts'
import { targetFault } from './request-target.ts'

export type Handler = (request: Request) => Response | Promise<Response>

export interface FrontDoorOptions {
  readonly descriptors: { readonly scarce: boolean }
  /** True while this process leaves: each answer then ends its connection, so that the client's next one leads elsewhere. */
  readonly leaving?: () => boolean
  /** Decides while descriptors are scarce whether a request is admitted. It must not throw. */
  readonly isKnown: (request: Request) => boolean
  readonly refuse: (request: Request, problem: Problem) => Response
  /** Why this listener does not take a request; null: it does. */
  readonly fault?: (request: Request) => Problem | null
}

const scarce = () =>
  new Problem('service_unavailable', { detail: 'Too many connections are open', retryAfterSeconds: 10 })

/** A WebSocket has no answer. */
function closing(response: Response | undefined): Response {
  response?.headers.set('connection', 'close')
  return response as Response
}

/**
 * What comes before every route of a listener, for `wrap` of Elysia: which handler takes a request. It costs a request
 * nothing else where nothing is wrong.
 */
export function frontDoor(options: FrontDoorOptions): (next: Handler, request: Request) => Handler {
  const { descriptors, isKnown, refuse, leaving = () => false, fault: unwanted = () => null } = options
  return (next, request) => {
    const fault = targetFault(request) ?? unwanted(request)
    if (fault !== null) return (asked) => refuse(asked, fault)
    if (leaving()) return async (asked) => closing(await next(asked))
    if (!descriptors.scarce) return next
    return async (asked) => closing(isKnown(asked) ? await next(asked) : refuse(asked, scarce()))
  }
}
