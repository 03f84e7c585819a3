import type { JsonObject } from './schema.ts'

/** A path that takes whatever follows, as OpenAPI names it: there a star is a letter like any other. */
export const documentedPath = (path: string) => path.replace(/\/\*$/, '/{rest}')

/** Its parameter. A schema of the router's own would make it print a fault. */
export const restParameters = (path: string): readonly JsonObject[] =>
  path.endsWith('/*') ? [{ name: 'rest', in: 'path', required: true, schema: { type: 'string', minLength: 1 } }] : []
