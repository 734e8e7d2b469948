from celery import shared_task

from orders.models import Order


@shared_task
def pack(order_id):
    Order.objects.filter(id=order_id).update(state="packed")
