#!/bin/sh
# What every container of this image starts with. Spark asks its Kubernetes executors to run `executor`, and tells them
# the rest in the environment; PySpark's package brings no script for that. Anything else is run as it is.
set -eu
if [ "${1:-}" = executor ]; then
  set -- java -XX:SharedArchiveFile="$SPARK_CLASS_DATA"
  # SPARK_JAVA_OPT_0, _1 and so on: one option each, which may hold spaces
  number=0
  while eval "option=\${SPARK_JAVA_OPT_$number:-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    number=$((number + 1))
  done
  # the class path is the one of Spark's launcher, word for word, or the archive of class data does not fit
  set -- "$@" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "$SPARK_HOME/conf:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
fi
exec tini -s -- "$@"
