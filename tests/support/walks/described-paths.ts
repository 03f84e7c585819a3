type Paths = Readonly<Record<string, object>>

/** The paths of an OpenAPI document, each with its operations: what refers to another path has those of it. */
export function describedPaths<P extends Paths>(paths: P): P {
  const pathOf = (pointer: string) => pointer.slice('#/paths/'.length).replaceAll('~1', '/').replaceAll('~0', '~')
  const items = Object.entries(paths).map(([path, item]) => {
    const { $ref: pointer } = item as { readonly $ref?: string }
    return [path, pointer === undefined ? item : paths[pathOf(pointer)]] as const
  })
  return Object.fromEntries(items) as P
}
